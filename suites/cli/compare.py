"""``enginebench compare``: two stored runs, or the current programs and the counts that a project has accepted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from suites import backends
from suites.cli import show
from suites.cli.output import JsonFlag, ResultsOption, console, path_option, print_json, print_table
from suites.harness.declare.spec import Suite, find, load, shipped
from suites.harness.errors import UsageError
from suites.harness.judge import compare, gate
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import progress
from suites.harness.present.overview_terminal import write_paragraph
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
    if before is None and accept is not None and is_gate:
        raise UsageError(
            "--accept takes the counts as they are, and --gate fails if they differ; leave out one of them"
        )
    if before is None and baselines is not None and results is not None:
        raise UsageError(
            "--results only names the folder of the accepted counts, and --baselines their file; leave out one of them"
        )
    if before is None:
        _compare_with_accepted(is_gate, accept, baselines, suite, store.results_folder(results), as_json=as_json)
        return
    for option, value in (("--accept", accept), ("--baselines", baselines), ("--suite", suite)):
        if value is not None:
            raise UsageError(f"{option} is for accepted counts, and {before} is a run; leave one of them out")
    _compare_runs(before, after or lookup.LAST, store.results_folder(results), is_gate=is_gate, as_json=as_json)


def _compare_runs(before: str, after: str, folder: Path, *, is_gate: bool, as_json: bool) -> None:
    earlier = lookup.find_run(folder, before, _choose_check(before), "is a run of a suite or model with rows")
    fits, cases = _choose_check(after), earlier.environment.plan.cases
    required = f"has cases in common with {earlier.name}"
    if after == lookup.LAST:
        required += f"; `{after}` never means an ablation or a history, so name the later run to compare with one"
    later = lookup.find_run(
        folder, after, lambda run: fits(run) and bool(run.environment.plan.cases.keys() & cases), required
    )
    if after == lookup.LAST and not before.startswith(lookup.LAST) and later.path.resolve() == earlier.path.resolve():
        raise UsageError(f"no run of this machine under {folder} that is later than {earlier.name} {required}")
    for one in (earlier, later):
        has_rows = bool(one.summaries()) and not lookup.is_history(one)
        if not has_rows and lookup.is_shown(one):
            what = lookup.describe_kind(one)
            what += " that reached no switch and so timed nothing" if lookup.is_ablation(one) else ""
            raise UsageError(f"{one.name}: {what}, which cannot be compared; `enginebench show {one.name}` prints it")
    found = compare.compare(earlier, later, MachineNoise(folder))
    for one in (earlier, later):
        show.warn_of_faults(one)
    if as_json:
        print_json(found.to_dict())
    else:
        _show_comparison(found, {*earlier.environment.versions, *later.environment.versions})
    if is_gate and not found.is_counted:
        print("No row has counts in both runs, so the gate does not pass.", file=sys.stderr)
    if is_gate and (found.regressed or not found.is_counted):
        raise typer.Exit(1)


def _choose_check(name: str) -> Callable[[store.Run], bool]:
    """Which runs `name` may stand for: ``last`` for no ablation, ``last:SUITE`` for that of the suite that it names."""
    if name.startswith(f"{lookup.LAST}:"):
        return lambda run: bool(run.summaries()) and not lookup.is_history(run)
    return lookup.is_measurement


def _show_comparison(found: compare.Comparison, packages: Collection[str]) -> None:
    printer = console()
    if found.surroundings:
        write_paragraph(printer, "Not the same surroundings, so times say nothing of the code:")
        for line in compare.surroundings(found.surroundings, packages):
            write_paragraph(printer, line, indent=2)
    print_table(list(compare.lines(found)))
    for name, keys in (
        ("only before", found.gone),
        ("only after", found.new),
        ("planned and missing before", found.missing_before),
        ("planned and missing after", found.missing),
    ):
        for case, backend in keys:
            write_paragraph(printer, f"{name}: {case}  {backend}")
    _write_lines(compare.explain_missing_times(found))
    write_paragraph(printer, LEGEND)


def _compare_with_accepted(
    is_gate: bool, why: str | None, path: Path | None, suite: str | None, folder: Path, *, as_json: bool
) -> None:
    path = path or folder / BASELINES
    if why is not None and not why.strip():
        raise UsageError("--accept '': expected the reason, which the file records")
    accepted = _find_accepted(path, suite, is_first=why is not None)
    found = gate.judge(accepted, _count(_find_suite(accepted.suite, path)))
    if why is not None:
        _accept(accepted, found, why.strip(), path, as_json=as_json)
        return
    if as_json:
        print_json({"baselines": str(path), **found.to_dict()})
    else:
        _show_differences(found)
        _write_lines(gate.summarise(found))
    if not found.passes and not as_json:
        print(_describe_next_step(found, path, folder))
    if is_gate and not found.passes:
        raise typer.Exit(1)


def _accept(accepted: gate.Baselines, found: gate.Judgement, why: str, path: Path, *, as_json: bool) -> None:
    """Write the current counts in place of those that differ, and print what changed and what is accepted now."""
    is_first = not accepted.counts
    if not as_json and not is_first:
        _show_differences(found)
    if found.differences:
        gate.write(path, gate.accept(accepted, found, why, datetime.now(UTC).date()))
    if as_json:
        print_json({"baselines": str(path), "accepted": bool(found.differences), **found.to_dict()})
    else:
        _write_lines(gate.describe_acceptance(found, is_first=is_first))
        print(f"The accepted counts are in {path}")


def _find_accepted(path: Path, suite: str | None, *, is_first: bool) -> gate.Baselines:
    """The file of accepted counts; an empty one for the first ``--accept``."""
    if path.exists():
        found = gate.read(path)
        if suite not in (None, found.suite) and _locate_suite(suite, path) != found.suite:
            raise UsageError(f"--suite {suite}: {path} is of suite {found.suite}; give another file by --baselines")
        return found
    if not is_first:
        raise UsageError(
            f"{path}: no accepted counts; make them with: enginebench compare --accept WHY --suite SUITE"
            f"{'' if path.name == BASELINES else f' --baselines {path}'}"
        )
    if suite is None:
        raise UsageError(f"{path} is new: --suite must say whose programs are counted; `enginebench list suites`")
    return gate.Baselines(suite=_locate_suite(suite, path))


def _locate_suite(suite: str, path: Path) -> str:
    """What the baselines file at `path` calls a suite: one of a file in this folder by its path from that of `path`."""
    given = Path(suite).expanduser()
    if suite in shipped() or given.is_absolute() or not given.is_file():
        return suite
    return os.path.relpath(given.resolve(), path.parent.resolve())


def _find_suite(name: str, path: Path) -> Suite:
    """The suite of that name, or in the file of that path, which is relative to the baselines file."""
    if name in shipped():
        return load(find(name))
    file = (path.parent / Path(name).expanduser()).resolve()  # also beside a folder that `gate.write` is to make
    return load(file if file.suffix == ".toml" or file.is_file() else find(name))


def _count(suite: Suite) -> dict[tuple[str, str], gate.Found]:
    """The programs of the engine in every case of the suite.

    Raises:
        UsageError: the suite has no row of the engine.
    """
    cases = [(case, [ref for ref in refs if backends.role(ref) != "peer"]) for case, refs in suite.cases()]
    if not any(refs for _, refs in cases):
        raise UsageError(f"suite {suite.name} has no row of the engine, and only its programs are counted")
    with progress.reporter() as reporter:
        counted = count_programs(cases, suite.timeouts, reporter)
    found = {}
    for key, one in counted.items():
        facts = None if one.facts is None else one.facts.model_dump()
        counts = None if facts is None else {name: facts[name] for name in compare.EXACT if facts[name] is not None}
        found[key] = gate.Found(counts, one.status, one.reason)
    return found


def _show_differences(found: gate.Judgement) -> None:
    """Print the rows that differ."""
    if rows := list(gate.list_rows(found)):
        print_table(rows)


def _write_lines(lines: Sequence[str]) -> None:
    """Print each line as a paragraph."""
    for line in lines:
        write_paragraph(console(), line)


def _describe_next_step(found: gate.Judgement, path: Path, folder: Path) -> str:
    if not found.differences:
        return "No row could be compared on this machine, so the gate does not pass."
    option = "" if path == folder / BASELINES else f" --baselines {path}"
    return f"If these changes are intended: enginebench compare --accept 'WHY'{option}"
