"""``enginebench ablate``: what each switch of a backend earns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from suites import backends
from suites.backends import versions
from suites.cli import targets
from suites.cli.output import (
    JsonFlag,
    ResultsOption,
    check_writable,
    console,
    count,
    path_option,
    print_json,
    print_table,
    whole_number,
)
from suites.cli.resuming import ResumeOption
from suites.harness.declare.case import BackendRef, Case, split_labels
from suites.harness.declare.spec import MOST_GENERATIONS, Suite, find, load
from suites.harness.errors import UsageError
from suites.harness.files import write_text_file
from suites.harness.judge import ablation
from suites.harness.present import ablation_table, progress
from suites.harness.present.report import Part, print_report, write_markdown
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import AblationRecord, Environment
from suites.harness.run import ablate
from suites.harness.run.plan import RunPlan, describe_duration, make

GENERATIONS = 4


class Mode(StrEnum):
    """What `--mode` may be."""

    BOTH = "both"
    LEAVE_ONE_OUT = "leave-one-out"
    ADD_ONE_IN = "add-one-in"


MODES = {
    Mode.BOTH: ablation.MODES,
    Mode.LEAVE_ONE_OUT: (ablation.LEAVE_ONE_OUT,),
    Mode.ADD_ONE_IN: (ablation.ADD_ONE_IN,),
}


def command(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="SUITE|MODEL", help=f"A suite. {targets.MODEL} (with --backend onnxruntime or openvino)."
        ),
    ],
    backend: Annotated[
        str, typer.Option(help="Backend whose switches are measured; its options are always on.")
    ] = "engine",
    switches: Annotated[
        str | None, typer.Option(help="Comma-separated switches, or kinds of them, instead of the usual ones.")
    ] = None,
    mode: Annotated[Mode, typer.Option(metavar="MODE", help=f"Comparison: {', '.join(Mode)}.")] = Mode.BOTH,
    pairs: Annotated[
        int | None, whole_number("--pairs", 2, help="Measure the N strongest switches in pairs, too.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Expression over the fields of a suite's cases; run --dry-run lists them."),
    ] = None,
    threads: Annotated[int | None, whole_number("--threads", 1, help="Threads of a call, for a model.")] = None,
    chosen: targets.SweepOption = None,
    precision: targets.PrecisionOption = None,
    generations: Annotated[
        int,
        whole_number(
            "--generations",
            2,
            MOST_GENERATIONS,
            help="Fresh sets of processes; with 10, most differences of 3% are detected.",
        ),
    ] = GENERATIONS,
    resume: ResumeOption = None,  # noqa: ARG001  # `Resumable` takes it
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the switches. Imports your Python files, and runs nothing else."),
    ] = False,
    csv: Annotated[Path | None, path_option("--csv", help="Write the numbers into this CSV file too.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure what each switch of a backend earns: left out while all others are on, on alone, and in pairs.

    A switch that does not change the program is `not reached` and is not timed.
    """
    folder = store.results_folder(results)
    if csv is not None:
        check_writable(csv)  # so that an hour of measuring does not end in finding that it cannot be written
    names = split_labels(switches) if switches is not None else None

    def declare() -> tuple[str, Suite, list[Case]]:
        label = versions.resolve(backend, Path.cwd())
        backends.check(BackendRef.parse(label))
        return label, *_declared(target, label, only, threads, chosen or [], precision, generations)

    with versions.without_building() as unbuilt:  # A mistake should not cost the minutes that a build takes.
        label, suite, cases = declare()
    if unbuilt:
        label, suite, cases = declare()
    taken = ablate.of_backend(label, names)
    if taken.bare is None and MODES[mode] == (ablation.ADD_ONE_IN,):
        raise UsageError(
            f"--mode {mode}: {taken.base.name} has no program without switches to add one to; use --mode leave-one-out"
        )
    request = ablate.Request(suite, cases, taken, MODES[mode], pairs or 0)
    if dry_run:
        _dry_run(request, folder, as_json=as_json)
        return
    invocation: Invocation = context.obj
    files = RunPlan(suite, [(case, [taken.base]) for case in cases]).list_files()
    invocation.note_files(files if targets.is_model(target) else [find(target), *files])
    with progress.reporter() as reporter:
        outcome = ablate.run(request, folder, reporter, invocation)
    invocation.end()
    if csv is not None:
        write_text_file(csv, ablation_table.write_csv(outcome.lines))
    if as_json:
        print_json(to_dict(outcome.paths, outcome.environment, outcome.lines))
    elif markdown:
        print(write_markdown(describe(outcome)), end="")
    else:
        print_report(console(), describe(outcome))
        for path in outcome.paths:
            print(f"stored: {path}")
    if not outcome.succeeded:
        raise typer.Exit(1)


def to_dict(paths: Sequence[Path], environment: Environment, lines: Sequence[AblationRecord]) -> dict[str, Any]:
    """For JSON."""
    return {
        "paths": [str(path) for path in paths],
        "environment": store.to_json(environment),
        "ablation": [store.to_json(line) for line in lines],
    }


def describe(outcome: ablate.Outcome) -> list[Part]:
    """The report of an ablation."""
    started = store.read_start(outcome.paths[0].stem)
    return ablation_table.make_report(outcome.lines, outcome.environment, started, outcome.samples)


def _declared(
    target: str,
    backend: str,
    only: str | None,
    threads: int | None,
    chosen: list[str],
    precision: str | None,
    generations: int,
) -> tuple[Suite, list[Case]]:
    """The suite, or one made of a model, and its cases.

    Raises:
        UsageError: the backend cannot run a model of the suite.
    """
    if targets.is_model(target):
        targets.check_form(
            target, BackendRef.parse(backend), "name another --backend"
        )  # before its sizes are asked for
        suite = targets.suite_of_model(target, chosen, threads, precision, backends=[backend], baseline=backend)
    else:
        of_model = {"--threads": threads, "--set": chosen, "--precision": precision}
        targets.check_suite(target, of_model)
        suite = load(find(target))
    cases = [case for case, _ in make(suite, only).cases]
    for case in cases:
        targets.check_form(case.model, BackendRef.parse(backend), "name another --backend")
    update = {"name": f"ablate_{suite.name}", "generations": generations}
    return suite.model_copy(update=update), cases


def _dry_run(request: ablate.Request, results: Path, *, as_json: bool) -> None:
    suite, cases, taken = request.suite, request.cases, request.ablation
    switches = [
        {"switch": switch.name, "kind": switch.kind, "alone": switch.alone is not None} for switch in taken.switches
    ]
    seconds = sum(one.estimate(results)[0] for one in ablate.plan_most(request))
    pairs = len(ablate.list_most_pairs(request))
    if as_json:
        ids = [case.id for case in cases]
        limits = {"pairs_at_most": pairs, "estimate_s_at_most": round(seconds)}
        print_json({"name": suite.name, "cases": ids, "switches": switches} | limits)
        return
    for case in cases:
        print(case.id)
    print_table([one | {"alone": "yes" if one["alone"] else "no"} for one in switches])
    and_pairs = f"at most {count(pairs, 'pair')} a case, " if request.pairs else ""
    print(
        f"{suite.name}: {count(len(cases), 'case')}, {count(len(switches), 'switch', 'es')}, {and_pairs}"
        f"{suite.generations} generations; about {describe_duration(seconds)} if each changes the program, less where "
        "one does not"
    )
