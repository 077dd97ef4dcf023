"""``enginebench compare``: two stored runs, or the current programs and the counts that a project has accepted."""

from __future__ import annotations

import os
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from suites import backends
from suites.cli import show
from suites.cli.output import (
    JsonFlag,
    ResultsOption,
    console,
    path_option,
    print_json,
    print_table,
    refuse_beside,
)
from suites.harness.declare.spec import Suite, find, load, shipped
from suites.harness.errors import UsageError
from suites.harness.judge import compare, gate
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import progress
from suites.harness.present.terminal import write_paragraph
from suites.harness.record import lookup, store
from suites.harness.run.counts import count_programs

BASELINES = "baselines.toml"
LEGEND = (
    "Counts are exact. Speed is that of the later run against the earlier one, each against the baseline of its run, "
    "with its 95% interval: above 1 is faster. The engine is called faster or slower only if p is below 5% after "
    "Holm's correction and no control, a backend that did not change, moved as far. The runs were not interleaved, so "
    "only counts can fail the gate."
)


def command(
    context: typer.Context,
    before: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help=f"The earlier run, {lookup.HELP}. Without it: the accepted counts."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="The later run; `last` has cases in common.", show_default="last, if RUN is given"
        ),
    ] = None,
    is_gate: Annotated[
        bool,
        typer.Option(
            "--gate",
            help="Exit with 1 if counts are worse or missing, or none can be compared; without RUN, if any differ.",
        ),
    ] = False,
    accept: Annotated[
        str | None, typer.Option(metavar="WHY", help="Without RUN: accept the current counts, and record why.")
    ] = None,
    baselines: Annotated[
        Path | None,
        path_option(
            "--baselines",
            help="Without RUN: the file of accepted counts.",
            show_default=f"{BASELINES} of the results folder",
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="Without RUN: the suite whose programs are counted, for the first --accept.")
    ] = None,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare two stored runs; or, without RUN, compare the counts of the engine's programs with the accepted ones.

    Of two runs, counts are compared exactly, and times relative to each run's own baseline. Without RUN nothing is
    timed: nodes, launches, memory, FLOPs and bytes of each program are compared with the file of accepted counts.
    """
    folder = store.results_folder(results)
    if before is not None:
        refuse_beside(context, before, ("--gate", "--results", "--json"), "is a run")
        _compare_runs(before, after or lookup.LAST, folder, is_gate=is_gate, as_json=as_json)
        return
    path = baselines or folder / BASELINES
    accepted = _find_accepted(path, suite, is_first=accept is not None)
    judgement = gate.judge(accepted, _count(_find_suite(accepted.suite, path)))
    answer = {"baselines": str(path), **judgement.to_dict()}
    if accept is not None and (judgement.differences or not path.exists()):
        gate.write(path, gate.accept(accepted, judgement, accept, datetime.now(UTC).date()))
    if accept is not None:
        answer["accepted"] = bool(judgement.differences)
    if as_json:
        print_json(answer)
    else:
        _show_judgement(judgement, path, is_accepted=accept is not None)
    if is_gate and accept is None and not judgement.passes:
        raise typer.Exit(1)


def _compare_runs(before: str, after: str, folder: Path, *, is_gate: bool, as_json: bool) -> None:
    earlier = lookup.find_run(folder, before, lookup.is_measurement, "is a run of a suite or model with rows")
    cases = earlier.environment.plan.cases.keys()
    later = lookup.find_run(
        folder,
        after,
        lambda run: lookup.is_measurement(run) and not cases.isdisjoint(run.environment.plan.cases),
        f"has cases in common with {earlier.name}",
    )
    comparison = compare.compare(earlier, later, MachineNoise(folder))
    for run in (earlier, later):
        show.warn_of_faults(run)
    if as_json:
        print_json(comparison.to_dict())
    else:
        _show_comparison(comparison)
    if is_gate and not comparison.is_counted:
        print("No row has counts in both runs, so the gate does not pass.", file=sys.stderr)
    if is_gate and (comparison.regressed or not comparison.is_counted):
        raise typer.Exit(1)


def _show_comparison(comparison: compare.Comparison) -> None:
    printer = console()
    if comparison.differences:
        write_paragraph(printer, "Not the same environment, so times say nothing of the code:")
        for name, pair in comparison.differences.items():
            write_paragraph(printer, compare.describe_change(name, *pair), indent=2)
    print_table(list(compare.lines(comparison)))
    for name, keys in (
        ("only before", comparison.gone),
        ("only after", comparison.new),
        ("planned and missing before", comparison.missing_before),
        ("planned and missing after", comparison.missing),
    ):
        for case, backend in keys:
            write_paragraph(printer, f"{name}: {case}  {backend}")
    for line in (*compare.explain_missing_times(comparison), LEGEND):
        write_paragraph(printer, line)


def _find_accepted(path: Path, suite: str | None, *, is_first: bool) -> gate.Baselines:
    """The file of accepted counts; an empty one for the first ``--accept``."""
    if suite is not None and Path(suite).is_file() and suite not in shipped():
        suite = os.path.relpath(Path(suite).resolve(), path.parent.resolve())
    if is_first and suite is not None and not path.exists():
        return gate.Baselines(suite=suite)
    if not path.exists():
        raise UsageError(
            f"{path}: no accepted counts; make them with: enginebench compare --accept WHY --suite SUITE"
            f"{'' if path.name == BASELINES else f' --baselines {path}'}"
        )
    accepted = gate.read(path)
    if suite not in (None, accepted.suite):
        raise UsageError(f"--suite {suite}: {path} is of suite {accepted.suite}; give another file by --baselines")
    return accepted


def _find_suite(name: str, path: Path) -> Suite:
    """The suite in the file of that path, which is relative to the baselines file, or of that name."""
    file = (path.parent / name).resolve()  # also beside a folder that `gate.write` is to make
    return load(file if file.is_file() else find(name))


def _count(suite: Suite) -> dict[tuple[str, str], gate.Program]:
    """The programs of the engine in every case of the suite."""
    cases = [(case, [ref for ref in refs if backends.role(ref) != "peer"]) for case, refs in suite.cases()]
    with progress.reporter() as reporter:
        counted = count_programs(cases, suite.timeouts, reporter)
    programs = {}
    for key, program in counted.items():
        facts = None if program.facts is None else program.facts.model_dump()
        counts = None if facts is None else {name: facts[name] for name in compare.EXACT if facts[name] is not None}
        programs[key] = gate.Program(counts, program.status, program.reason)
    return programs


def _show_judgement(judgement: gate.Judgement, path: Path, *, is_accepted: bool) -> None:
    rows = [
        {"case": row.case, "backend": row.backend, "verdict": row.kind, "accepted -> now": row.describe()}
        for row in judgement.differences
    ]
    if rows:
        print_table(rows)
    equal, differing = judgement.equal, len(rows)
    lines = [f"Rows as accepted: {equal} of {equal + differing}."]
    if is_accepted:
        lines = [f"Rows accepted: {differing}, and {equal} as before. The accepted counts are in {path}"]
    reasons = Counter((label, reason) for _, label, reason in judgement.skipped)
    lines += [f"Not compared: {label} in {number} of the cases: {why}" for (label, why), number in reasons.items()]
    if not rows and not equal:
        lines += ["No row could be compared on this machine, so the gate does not pass."]
    elif rows and not is_accepted:
        lines += [f"If these changes are intended: enginebench compare --accept 'WHY' --baselines {path}"]
    for line in lines:
        write_paragraph(console(), line)
