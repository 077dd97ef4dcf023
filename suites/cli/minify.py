"""``enginebench minify``: the smallest part of a model that fails, as a script and a capsule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import engine
from engine.inspect.minify import Subject
from suites import backends
from suites.backends.engine import Engine
from suites.cli import failing, sides, subject, targets
from suites.cli.output import JsonFlag, console, path_option, print_json, stdout_as_stderr, whole_number
from suites.harness.declare.case import BackendRef
from suites.harness.errors import UsageError
from suites.harness.present.terminal import write_paragraph


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    fails: Annotated[str, failing.fails_option("a script in $SCRIPT")] = "wrong",
    candidate: Annotated[
        str,
        typer.Option(
            help="What fails: engine\\[precision=bf16,isa=avx2], or a runtime, such as openvino.", metavar="LABEL"
        ),
    ] = "engine",
    capsule: Annotated[
        Path | None,
        path_option("--capsule", help="File to write, which enginebench replay runs; its script lies beside it."),
    ] = None,
    fail_regex: failing.RegexOption = None,
    limit: failing.LimitOption = failing.LIMIT,
    chosen: targets.SetOption = None,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of a call.")] = 1,
    work: failing.WorkOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the smallest part of a model that still fails, and print it as a script of plain torch.

    Nodes are left out, sizes cut, weights and inputs made simple, as long as it fails in the same way. The script has
    run alone before it is shown.
    """
    arguments = targets.read_arguments(model, chosen or [])
    oracle = failing.read_fails(fails, fail_regex, limit)
    side, precision = _read_side(candidate, threads)
    with stdout_as_stderr(), failing.as_usage_errors():
        case = failing.build(model, arguments, precision, "minify needs a PyTorch module, whose graph it cuts")
        result = engine.minify(
            case.module,
            case.inputs,
            oracle,
            candidate=side,
            limit=limit,
            capsule=capsule,
            folder=work,
            setup=case.setup,
            observe=failing.show_trials,
        )
    if as_json:
        print_json({"model": model, "arguments": arguments, **result.to_dict()})
        return
    for line in str(result).splitlines():
        write_paragraph(console(), line)
    print(f"\n{result.script}", end="")
    if capsule is not None:
        write_paragraph(console(), f"\nWritten to {capsule} and {capsule.with_suffix('.repro.py')}.")


def _read_side(label: str, threads: int) -> tuple[engine.Config | Subject, str]:
    """What runs the parts, and the precision of the model. UsageError for what has no script of its own."""
    ref = BackendRef.parse(label)
    if ref.name in backends.BACKENDS and backends.load(ref) is not Engine:
        options, precision = sides.split_precision(ref, "--candidate")
        script = subject.find_scripts(ref.name).get(precision)
        if script is None or options:
            raise UsageError(
                f"--candidate {label}: minify runs engine[...], and without options {', '.join(subject.list_able())}"
            )
        told = {"label": ref.name, "precision": precision, "threads": threads}
        return Subject(label, script, "suites.cli.subject:run", told), precision
    return failing.read_config(targets.read_engine(label, "--candidate"), "--candidate", threads)
