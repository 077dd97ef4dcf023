"""``enginebench profile``: where the time of a call goes, and how near the roof others come with the same work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.processors import count_processors
from engine.runtime.report import ModuleTime, Profile, format_cell
from engine.suggest import unknown
from suites import backends as registry
from suites.cli import profile_against, targets
from suites.cli.compiled import compile_model
from suites.cli.output import (
    JsonFlag,
    ResultsOption,
    console,
    count,
    print_json,
    print_table,
    whole_number,
)
from suites.harness.declare.case import BackendRef, Case, split_labels
from suites.harness.declare.device import CPU, CUDA
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError
from suites.harness.judge import judged_case
from suites.harness.measure import roofs
from suites.harness.present import progress, ranked
from suites.harness.present.report import print_report
from suites.harness.present.terminal import write_paragraph
from suites.harness.record import machine, store
from suites.harness.record.launches import NodeRecord
from suites.harness.run import launches, plan, runner

ENGINE = "engine"
ROWS = ("launch", "time", "module")
"""What ``--by`` takes."""
TURNS = 3
"""Profiles of each of two programs that are compared."""
_COPIED = (
    "op",
    "kernel",
    "module",
    "seconds",
    "flops",
    "executed_flops",
    "bytes",
    "time_share",
    "roof_share",
    "peak_flops",
)
"""Fields of a launch that a record has too."""
LEGEND = (
    "Each backend as a whole, in turns, a process each. Of roof: the least time that this machine needs for the work "
    "of the case, over the latency. The work is the same for all backends, so the engine's share differs from that of "
    "its launches above if they execute less. Every word: docs/reading-results.md"
)


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of a call.")] = 1,
    chosen: targets.SetOption = None,
    precision: Annotated[
        str, typer.Option(help=f"Precision of the model, as in a case of run: {', '.join(PRECISIONS)}.")
    ] = "fp32",
    backend: targets.BackendOption = ENGINE,
    device: Annotated[
        str, typer.Option(help=f"Where the program runs: {CPU}, or {CUDA} for the GPU kernels of target triton.")
    ] = CPU,
    backends: Annotated[
        str | None,
        typer.Option(help="Comma-separated backends to time beside the engine; their calls are timed as a whole."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="engine[...]",
            help="The engine with other options, such as engine[precision=fp32]: each layer beside it, and why.",
        ),
    ] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Store the launches as a run of their own, for the site and enginebench show."),
    ] = False,
    by: Annotated[
        str, typer.Option(help="Rows: launch (in order), time (the longest launch first) or module (totals of each).")
    ] = ROWS[0],
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compile a model with the engine and print where the time of a call goes, launch by launch.

    With --backends, the engine and these backends take turns in a run, which is stored; a table has latency and share
    of the roof of each. With --record, the launches are stored as a run of the suite nodes_MODEL, also with --backends.
    With --against, profiles of both programs take turns, and a table compares them layer by layer.
    """
    folder = store.results_folder(results)
    ref = targets.read_engine(backend)
    refs = [ref] if against is None else [ref, targets.read_engine(against, "--against")]
    if device != CPU and (backends is not None or record):
        raise UsageError(
            f"--device {device}: --backends and --record are for the {CPU}; leave them out, or name the device in a "
            "suite, as enginebench run gpu does"
        )
    targets.check_form(model, ref, "enginebench run measures it with the backends that can")
    if by not in ROWS:
        raise UsageError(f"--by: {unknown('row', by, ROWS)}")
    arguments = targets.read_arguments(model, chosen or [])
    targets.check_precision(precision)
    asked = _plan(model, chosen or [], threads, precision, backends, ref) if backends else None
    _warn_of_excess_threads(threads)
    case, suite = _name_case(model, chosen or [], threads, precision)
    new = _begin_record(case, suite, ref, folder) if record else None
    answer, *others = _profiled(model, arguments, threads, precision, refs, device)
    labels = f"{ref.spelling} in {precision}", against or ""
    if not as_json:
        _print_profile(answer, by)
        for other in others:
            print()
            print_table(profile_against.tabulate(profile_against.compare(answer, other), labels[1]))
            write_paragraph(console(), profile_against.explain(answer, other, labels))
    path = new.write(_list_nodes(answer, case, ref)) if new is not None else None
    if path is not None and not as_json:
        print(f"stored: {path}")
    outcome = None
    if asked is not None:
        with progress.reporter(shows_cases=False) as reporter:  # `_show` prints the case
            outcome = runner.run(asked, folder, reporter, measure_roofs=roofs.measure)
    if as_json:
        beside = outcome.to_dict() if outcome is not None else None
        asked_for = {"model": model, "threads": threads, "precision": precision, "arguments": arguments}
        stored = {"stored": str(path)} if path is not None else {}
        compared = {"against": profile_against.to_dict(answer, others[0], labels)} if others else {}
        print_json({**asked_for, **answer.to_dict(), **stored, **compared, "beside": beside})
    elif outcome is not None:
        _show(outcome)
    if outcome is not None and not outcome.succeeded:
        raise typer.Exit(1)


def _print_profile(answer: Profile, by: str) -> None:
    """Print the profile as it writes itself, or where its lines are too long for the output, as other tables."""
    printer = console()
    if by == "module":
        print_table([_tabulate_module(one) for one in answer.by_module()])
        write_paragraph(printer, "A module has the times of the modules in it.")
        return
    if by == "time":
        answer = replace(answer, nodes=tuple(sorted(answer.nodes, key=lambda one: -one.seconds)))
    written = str(answer)
    if all(len(line) <= printer.width for line in written.splitlines()):
        print(written)
        return
    for header, rows in answer.tabulate():
        if rows:
            print_table([dict(zip(header, map(format_cell, row), strict=True)) for row in rows])
    for line in "\n\n".join(answer.describe()).splitlines():
        write_paragraph(printer, line)


def _tabulate_module(one: ModuleTime) -> dict[str, str]:
    cells = {"module": one.module or "(model)", "launches": one.launches, "us": one.seconds * 1e6}
    return {name: format_cell(cell) for name, cell in cells.items()} | {"time": f"{one.time_share:6.1%}"}


def _warn_of_excess_threads(threads: int) -> None:
    """Say on standard error that there are more threads than processors."""
    usable = count_processors()
    if threads > usable:
        may_use = f"this process may use {count(usable, 'processor')}"
        note = f"--threads {threads}: {may_use}, so use at most that many threads for meaningful times"
        print(note, file=sys.stderr)


def _profiled(
    model: str, arguments: Mapping[str, Any], threads: int, precision: str, refs: Sequence[BackendRef], device: str
) -> list[Profile]:
    """Profiles of the engine's program for each of `refs`; several take turns, and that of median time counts.

    Frees the model, so that what is measured next has the memory to itself.
    """
    programs = [compile_model(model, arguments, threads, precision, ref, device) for ref in refs]
    count = TURNS if len(refs) > 1 else 1
    turns = [[one.program.profile(*one.inputs, **one.options) for one in programs] for _ in range(count)]
    return [sorted(own, key=lambda one: one.seconds)[len(own) // 2] for own in zip(*turns, strict=True)]


def _name_case(model: str, chosen: Sequence[str], threads: int, precision: str) -> tuple[Case, str]:
    """The case that is profiled, as a run would name it, and the name that a suite of this model has."""
    suite = targets.suite_of_model(model, chosen, threads, precision, backends=[ENGINE], baseline=ENGINE)
    ((case, _),) = suite.cases()
    return case, suite.name


def _begin_record(case: Case, suite: str, ref: BackendRef, folder: Path) -> launches.NewRun:
    """The run that the launches are stored as; its only backend is the engine."""
    asked = launches.make_plan(f"nodes_{suite}", f"launches of a profiled call of {case.id}", ref.label, [])
    backends = {ref.label: registry.record(ref, machine.versions(), [case.precision])}
    return launches.begin(folder, asked, case.threads, roofs.measure, backends)


def _list_nodes(answer: Profile, case: Case, ref: BackendRef) -> list[NodeRecord]:
    """A line for each launch."""
    return [
        NodeRecord(
            case=case.id,
            backend=ref.label,
            index=index,
            shape=list(node.shape),
            bound="memory" if node.bound == "memory" else "compute",
            bandwidth=answer.bandwidth,
            **{name: getattr(node, name) for name in _COPIED},
        )
        for index, node in enumerate(answer.nodes)
    ]


def _plan(
    model: str, chosen: Sequence[str], threads: int, precision: str, backends: str, ref: BackendRef
) -> plan.RunPlan:
    labels = list(dict.fromkeys([ref.spelling, *split_labels(backends)]))
    suite = targets.suite_of_model(model, chosen, threads, precision, backends=labels, baseline=ref.spelling)
    return plan.make(suite.model_copy(update={"name": f"profile_{suite.name}"}))


def _show(outcome: runner.Outcome) -> None:
    printer = console()
    for one in judged_case.judge_cases(outcome.summaries):
        printer.print()
        print_report(printer, ranked.describe_case(one))
    write_paragraph(printer, LEGEND, style="dim")
    print(f"stored: {outcome.path}")
