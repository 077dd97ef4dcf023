"""``enginebench bisect``: which switch makes a model fail."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import engine
from engine.errors import EngineError
from engine.inspect.bisect import FAILURES
from engine.inspect.command import CANNOT_TELL, Command
from engine.inspect.trials import LIMIT_S
from suites import models
from suites.backends.engine import Engine
from suites.cli import sides, targets
from suites.cli.output import JsonFlag, console, path_option, print_json, stdout_as_stderr, whole_number
from suites.harness.errors import UsageError
from suites.harness.present.terminal import write_paragraph


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    fails: Annotated[
        str,
        typer.Option(
            help=f"What fails: {', '.join(FAILURES)}; or a shell command, which finds the program file in $PROGRAM and "
            f"ends with a status other than 0 ({CANNOT_TELL}: it cannot tell).",
            metavar="FAILURE|COMMAND",
        ),
    ] = "wrong",
    candidate: Annotated[
        str, typer.Option(help="What fails: engine\\[precision=bf16,isa=avx2].", metavar="LABEL")
    ] = "engine",
    reference: Annotated[
        str, typer.Option(help=f"What is right: {', '.join(sides.PLAIN)}.", metavar="LABEL")
    ] = sides.PLAIN[0],
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Relative error from which a result is wrong.", show_default="what diff calls wrong"
        ),
    ] = None,
    fail_regex: Annotated[
        str | None, typer.Option(help="The command fails if its output matches this.", metavar="REGEX")
    ] = None,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which a trial hangs.")] = LIMIT_S,
    chosen: targets.SetOption = None,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of a call.")] = 1,
    work: Annotated[
        Path | None, path_option("--work", help="Folder for trials: a search that was interrupted goes on there.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find which pass, rewrite, kernel, instruction set, number of threads or layer's precision makes a model fail.

    Each trial runs in a process of its own. Another failure than the first one does not count.
    """
    found, arguments = models.get(model), targets.read_arguments(model, chosen or [])
    if found.form != "module":
        raise UsageError(f"model {model}: bisect needs a PyTorch module, because it leaves out passes")
    if reference not in sides.PLAIN:
        raise UsageError(f"--reference {reference}: expected {', '.join(sides.PLAIN)}")
    is_command = fails not in FAILURES
    if fail_regex is not None and not is_command:
        raise UsageError(f"--fail-regex is for a command, and --fails is {fails}")
    try:
        oracle: Any = Command(fails, fail_regex, limit) if is_command else fails
    except re.error as error:
        raise UsageError(f"--fail-regex {fail_regex!r}: {error}") from None
    ref = targets.read_engine(candidate, "--candidate")
    options, precision = sides.split_precision(ref, "--candidate")
    backend = Engine(threads, options)
    backend.precision = precision
    setup = [model.rpartition(":")[0]] if ".py:" in model else []
    with stdout_as_stderr():
        module, inputs = found.build(**arguments)
        module, inputs = sides.convert(module, tuple(inputs), precision)
        try:
            result = engine.bisect(
                module,
                inputs,
                oracle,
                reference=reference,
                candidate=engine.Config(**backend.config()),
                tolerance=tolerance,
                limit=limit,
                folder=work,
                setup=setup,
                observe=_show,
            )
        except EngineError as error:
            raise UsageError(str(error)) from None
    if as_json:
        print_json({"model": model, "arguments": arguments, **result.to_dict()})
        return
    for line in str(result).splitlines():
        write_paragraph(console(), line)


def _show(count: int) -> None:
    """Tell a person who waits how many trials there were."""
    if sys.stderr.isatty():
        print(f"{count} trials", end="\r", file=sys.stderr, flush=True)
