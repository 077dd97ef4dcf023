"""``enginebench bisect``: which switch makes a model fail."""

from __future__ import annotations

from typing import Annotated

import typer

import engine
from suites.cli import failing, sides, targets
from suites.cli.output import JsonFlag, console, print_json, stdout_as_stderr, whole_number
from suites.harness.errors import UsageError
from suites.harness.present.terminal import write_paragraph


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    fails: Annotated[str, failing.fails_option("the program file in $PROGRAM")] = "wrong",
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
    fail_regex: failing.RegexOption = None,
    limit: failing.LimitOption = failing.LIMIT,
    chosen: targets.SetOption = None,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of a call.")] = 1,
    work: failing.WorkOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find which pass, rewrite, kernel, instruction set, number of threads or layer's precision makes a model fail.

    Each trial runs in a process of its own. Another failure than the first one does not count.
    """
    arguments = targets.read_arguments(model, chosen or [])
    if reference not in sides.PLAIN:
        raise UsageError(f"--reference {reference}: expected {', '.join(sides.PLAIN)}")
    oracle = failing.read_fails(fails, fail_regex, limit)
    config, precision = failing.read_config(targets.read_engine(candidate, "--candidate"), "--candidate", threads)
    with stdout_as_stderr(), failing.as_usage_errors():
        case = failing.build(model, arguments, precision, "bisect needs a PyTorch module, because it leaves out passes")
        result = engine.bisect(
            case.module,
            case.inputs,
            oracle,
            reference=reference,
            candidate=config,
            tolerance=tolerance,
            limit=limit,
            folder=work,
            setup=case.setup,
            observe=failing.show_trials,
        )
    if as_json:
        print_json({"model": model, "arguments": arguments, **result.to_dict()})
        return
    for line in str(result).splitlines():
        write_paragraph(console(), line)
