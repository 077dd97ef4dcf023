"""``enginebench show``: a stored run again, as tables, pictures, Markdown, CSV or JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from engine.suggest import unknown
from suites.accuracy import tables, tradeoff
from suites.cli import ablation
from suites.cli.output import JsonFlag, ResultsOption, console, path_option, print_json
from suites.harness.errors import UsageError
from suites.harness.files import resolve_links
from suites.harness.judge import growth, judged_case, steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import (
    ablation_table,
    details,
    history,
    launches,
    markdown,
    names,
    operations,
    overview,
    picture,
    plot,
    ranked,
)
from suites.harness.present.growth import describe_growth
from suites.harness.present.report import GUIDE, Paragraph, Part, print_report, write_markdown
from suites.harness.record import frame, lookup, machine, store, superseded
from suites.harness.record.commits import CommitRecord
from suites.harness.record.invocation import describe_resuming
from suites.harness.record.launches import KernelRecord, NodeRecord, OperationRecord
from suites.harness.record.schema import AblationRecord, AccuracyRecord, Record, Samples, Summary
from suites.harness.run import runner

R = TypeVar("R", bound=Record)


def command(
    name: Annotated[str, typer.Argument(metavar="RUN", help=f"A run {lookup.HELP}.")] = "last",
    with_details: Annotated[
        bool, typer.Option("--details", help="Print everything that was measured, case by case.")
    ] = False,
    case: Annotated[
        str | None, typer.Option(help="Only cases whose name contains this; prints each with its rows, best first.")
    ] = None,
    as_plot: Annotated[
        bool, typer.Option("--plot", help="Plot the engine's lead in every case, with intervals.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    into: Annotated[
        Path | None, path_option("--into", help="Write the Markdown between the markers of this file.")
    ] = None,
    marker: Annotated[str, typer.Option(help="Name of the markers: <!-- NAME --> ... <!-- /NAME -->.")] = "table",
    svg: Annotated[
        Path | None,
        path_option("--svg", help="Draw the engine's leads into this SVG file, and for dark pages into NAME-dark.svg."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every column of every row as CSV.")] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print a stored run again: the overview, or with --details or --case all measurements of each case."""
    forms = {
        "--details": with_details,
        "--json": as_json,
        "--csv": as_csv,
        "--plot": as_plot,
        "--svg": svg is not None,
        "--markdown" if into is None else "--into": as_markdown or into is not None,
    }
    chosen = [option for option, is_given in forms.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)}: each is a form of the whole output; give one of them")
    of_rows = {"--svg": svg is not None, "--plot": as_plot, "--case": case is not None}
    run, kind = _find_shown(store.results_folder(results), name, [key for key, is_given in of_rows.items() if is_given])
    rows = choose_cases(run.summaries(), case) if kind is Summary else []
    missing = describe_missing_rows(run)
    if missing and (as_csv or as_json or svg is not None):  # these forms have no place for the line
        print(f"{run.name}: {missing}", file=sys.stderr)
    if as_csv:
        found = frame.of_run(run, kind)
        found = found if case is None else found[found["case"].isin({row.case for row in rows})]
        print(found.to_csv(index=False), end="")
        return
    warn_of_faults(run)
    if kind is Summary and not rows:
        raise UsageError(f"{run.name}: no case is finished. {missing}")
    if as_json:
        print_json(_KINDS[kind].to_json(run, rows))
        return
    if svg is not None:
        picture.draw(svg, rows, run.environment, run.started)
        return
    is_whole = with_details or (case is not None and not chosen)
    if as_plot:
        parts = plot.describe_leads(rows, run.environment, run.started)
    elif is_whole and kind is Summary:
        parts = _describe_cases(run, rows)
    else:
        parts = _KINDS[kind].describe(run, rows)
    parts = [*([Paragraph(missing, "bold")] if missing else []), *parts]
    if into is not None:
        markdown.write_between(into, marker, write_markdown(parts, lambda guide: link_to(guide, into)))
    elif as_markdown:
        print(write_markdown(parts), end="")
    else:
        print(f"run {run.name}\n")
        print_report(console(), parts, with_details=is_whole)


def _find_shown(results: Path, name: str, needing: Sequence[str]) -> tuple[store.Run, type[Record]]:
    """The run that `name` means, and the kind of its lines.

    Args:
        results: the results folder.
        name: of the run. ``last`` means a run of a suite or model if an option needs one, but ``last:SUITE`` means the
            newest run of that suite.
        needing: options that need rows of a suite or model.

    Raises:
        UsageError: the run has no such rows.
    """
    options = f"{' and '.join(needing)} {'is' if len(needing) == 1 else 'are'}"
    if not needing or name.startswith(f"{lookup.LAST}:"):
        run = lookup.find_run(results, name, lookup.is_shown, "has rows")
    else:
        required = f"is a run of a suite or model with rows, which {options} for"
        run = lookup.find_run(results, name, lookup.is_measurement, required)
    kind = _choose_kind(run)
    if kind is not Summary and needing:
        raise UsageError(f"{options} for runs of a suite or model, and {run.name} is {lookup.describe_kind(run)}")
    return run, kind


def _choose_kind(run: store.Run) -> type[Record]:
    """The kind of lines that a run is shown by. A history that was interrupted has rows only."""
    if lookup.is_history(run):
        return CommitRecord
    return next((kind for kind in _KINDS if run.of(kind)), Summary)


def choose_cases(summaries: Sequence[Summary], text: str | None) -> list[Summary]:
    """The rows of the cases whose id or short name is `text`, or else contains it; all of them for None.

    Raises:
        UsageError: no case fits.
    """
    if text is None:
        return list(summaries)
    short = names.shorten_names(summaries)
    for fits in (lambda one: text in (one, short[one]), lambda one: text in one or text in short[one]):
        cases = {one for one in short if fits(one)}
        if cases:
            return [row for row in summaries if row.case in cases]
    raise UsageError(unknown("--case", text, [*short.values(), *short]))


def show_run(run: store.Run, *, as_json: bool) -> None:
    """Print a complete run as a report or as JSON."""
    kind, rows = _KINDS[_choose_kind(run)], run.summaries()
    if as_json:
        print_json(kind.to_json(run, rows))
    else:
        print_report(console(), kind.describe(run, rows))


def describe_rows(run: store.Run, rows: Sequence[Summary]) -> list[Part]:
    """The overview, how latency grows with a size that was swept, and time beside accuracy where that was scored."""
    return [
        *overview.make_report(rows, run.environment, run.started),
        *describe_growth(growth.fitted(rows)),
        *tables.describe_tradeoffs(_list_tradeoffs(run, rows), is_short=True),
    ]


def _describe_cases(run: store.Run, rows: Sequence[Summary]) -> list[Part]:
    """Everything that was measured, a case at a time."""
    parts: list[Part] = [Paragraph(overview.describe_place(run.environment, run.started))]
    parts.append(overview.describe_versions(run.environment))
    for one in judged_case.judge_cases(rows):
        parts += [*ranked.describe_case(one), *details.describe_details(one, run.environment)]
    parts += tables.describe_tradeoffs(_list_tradeoffs(run, rows), is_short=False)
    return [*parts, Paragraph(f"Every word: {GUIDE}.", "dim")]


def _list_tradeoffs(run: store.Run, rows: Sequence[Summary]) -> list[tradeoff.Tradeoff]:
    lines = run.of(AccuracyRecord)
    return tradeoff.list_tradeoffs(rows, run.of(Samples), lines, run.environment) if lines else []


def _rows_to_json(run: store.Run, rows: Sequence[Summary]) -> dict[str, Any]:
    return runner.Outcome(run.path, run.environment, list(rows)).to_dict() | describe_accuracy(run)


def describe_accuracy(run: store.Run) -> dict[str, Any]:
    """The lines of accuracy of a run for JSON; nothing for a run without them."""
    found = run.of(AccuracyRecord)
    return {"accuracy": [store.to_json(line) for line in found]} if found else {}


def _describe_ablation(run: store.Run, _rows: Sequence[Summary]) -> list[Part]:
    return ablation_table.make_report(run.of(AblationRecord), run.environment, run.started, run.of(Samples))


def _ablation_to_json(run: store.Run, _rows: Sequence[Summary]) -> dict[str, Any]:
    return ablation.to_dict([run.path], run.environment, run.of(AblationRecord))


def _follow(run: store.Run) -> list[steps.Track]:
    return steps.follow(run, MachineNoise(run.path.parents[2], exclude=run.path))


def _describe_history(run: store.Run, _rows: Sequence[Summary]) -> list[Part]:
    place = Paragraph(overview.describe_place(run.environment, run.started))
    return [place, *history.describe_history(_follow(run))]


def _history_to_json(run: store.Run, _rows: Sequence[Summary]) -> dict[str, Any]:
    return {"path": str(run.path), "cases": history.to_dict(_follow(run))}


@dataclass(frozen=True)
class _Kind:
    """How runs of a kind are shown; both take the run and the rows that were chosen."""

    describe: Callable[[store.Run, Sequence[Summary]], list[Part]]
    to_json: Callable[[store.Run, Sequence[Summary]], dict[str, Any]]


def _of_launches(kind: type[R], describe_lines: Callable[[Sequence[R]], list[Part]]) -> _Kind:
    """A kind of line that belongs to no case."""

    def describe(run: store.Run, _rows: Sequence[Summary]) -> list[Part]:
        place = Paragraph(overview.describe_place(run.environment, run.started))
        return [place, overview.describe_versions(run.environment), *describe_lines(run.of(kind))]

    def to_json(run: store.Run, _rows: Sequence[Summary]) -> dict[str, Any]:
        lines = [store.to_json(line) for line in run.of(kind)]
        return {"path": str(run.path), "environment": store.to_json(run.environment), "lines": lines}

    return _Kind(describe, to_json)


_KINDS: Mapping[type[Record], _Kind] = {
    CommitRecord: _Kind(_describe_history, _history_to_json),
    AblationRecord: _Kind(_describe_ablation, _ablation_to_json),
    Summary: _Kind(describe_rows, _rows_to_json),
    KernelRecord: _of_launches(KernelRecord, launches.describe_kernels),
    NodeRecord: _of_launches(NodeRecord, launches.describe_nodes),
    OperationRecord: _of_launches(OperationRecord, operations.describe_operations),
}
"""Kind of lines -> how a run that has such lines is shown; the first kind that a run has counts."""


def warn_of_faults(run: store.Run) -> None:
    """Say on standard error which faults of the harness the run is older than."""
    for fault in superseded.known(run.path).of_run(run.name):
        print(f"superseded: {run.name}: {fault.reason} (mended in {fault.fixed})", file=sys.stderr)


def describe_missing_rows(run: store.Run) -> str:
    """How much of an unfinished run is stored, and how it goes on, in one line; empty for a complete run."""
    if not run.unfinished:
        return ""
    command = describe_resuming(run.path)
    return f"Unfinished: {run.unfinished}." + (f" To continue: {command}" if command is not None else "")


def link_to(guide: str, page: Path) -> str:
    """The link to a page of this checkout, from the page at `page`; as it is where the page is somewhere else."""
    root = machine.checkout()
    if root is None or not resolve_links(page).is_relative_to(root):
        return guide
    return os.path.relpath(root / guide, resolve_links(page).parent)
