"""``enginebench show``: a stored run again, as tables, pictures, Markdown, CSV or JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.suggest import unknown
from suites.accuracy import tables, tradeoff
from suites.cli import ablation
from suites.cli.output import JsonFlag, ResultsOption, console, list_given_options, path_option, print_json, print_table
from suites.harness.errors import UsageError
from suites.harness.files import resolve_links
from suites.harness.judge import growth, standing, steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import (
    ablation_table,
    ablation_terminal,
    details,
    history,
    launches,
    markdown,
    names,
    notes,
    overview,
    overview_markdown,
    overview_terminal,
    picture,
    plot,
    ranked,
)
from suites.harness.present.growth import print_growth
from suites.harness.record import frame, lookup, machine, store, superseded
from suites.harness.record.commits import CommitRecord
from suites.harness.record.invocation import describe_resuming
from suites.harness.record.launches import KernelRecord, NodeRecord
from suites.harness.record.schema import AblationRecord, AccuracyRecord, Environment, Samples, Summary
from suites.harness.run import runner


def command(
    context: typer.Context,
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
    written = "--markdown" if into is None else "--into"
    forms = {
        "--json": as_json,
        "--csv": as_csv,
        "--plot": as_plot,
        "--svg": svg is not None,
        written: as_markdown or into is not None,
    }
    _check_forms(forms)
    form = next((option for option, is_given in forms.items() if is_given), None)
    if with_details and form is not None:
        raise UsageError(
            f"--details is for the tables of a terminal, and {form} is another form; leave out one of them"
        )
    if into is None and "--marker" in list_given_options(context):
        raise UsageError("--marker is for --into, the file that has the markers")
    if case == "":
        raise UsageError("--case '': expected a part of the name of a case")
    if svg is not None and svg.suffix != ".svg":
        raise UsageError(f"--svg {svg}: expected a name that ends in .svg; this writes no other kind of picture")
    of_rows = {"--svg": svg is not None, "--plot": as_plot, "--case": case is not None}
    found = _find_shown(store.results_folder(results), name, of_rows)
    is_other = _has_other_lines(found)
    if is_other:
        of_history = {"--csv": as_csv, written: as_markdown or into is not None}
        _check_forms_of(found, of_rows | (of_history if lookup.is_history(found) else {}))
    if as_csv:
        _warn_of_missing_rows(found)
        _print_csv(found, case)
        return
    warn_of_faults(found)
    if is_other:
        _show_other(found, into, marker, with_details=with_details, as_markdown=as_markdown, as_json=as_json)
        return
    if not lookup.is_shown(found):
        raise UsageError(f"{found.name}: no case is finished. {describe_missing_rows(found)}")
    chosen = choose_cases(found.summaries(), case)
    if svg is not None:
        _warn_of_missing_rows(found)
        picture.draw(svg, chosen, found.environment, found.started)
    elif into is not None:
        markdown.write_between(into, marker, _write_markdown(chosen, found, into))
    elif as_json:
        _warn_of_missing_rows(found)
        print_json(runner.Outcome(found.path, found.environment, chosen).to_dict() | describe_accuracy(found))
    elif as_markdown:
        print(_write_markdown(chosen, found, None), end="")
    else:
        _print_rows(chosen, found, as_plot=as_plot, is_short=not with_details and case is None)


def _find_shown(results: Path, name: str, of_rows: Mapping[str, bool]) -> store.Run:
    """The run that `name` means. For options that need rows of a suite or model, ``last`` chooses such a run.

    ``last:SUITE`` means the newest run of that suite, with such rows or without. `_check_forms_of` refuses one without.
    """
    options = [option for option, is_given in of_rows.items() if is_given]
    if not options or name.startswith(f"{lookup.LAST}:"):
        return lookup.find_run(results, name, lookup.is_shown, "has rows")
    required = f"is a run of a suite or model with rows, which {_join_options(options)} for"
    return lookup.find_run(results, name, lookup.is_measurement, required)


def _join_options(options: Sequence[str]) -> str:
    """The options and their verb: ``--plot is``, ``--plot and --case are``."""
    return f"{' and '.join(options)} {'is' if len(options) == 1 else 'are'}"


def _print_csv(run: store.Run, case: str | None) -> None:
    """Print a line for each row, only of the cases that `case` chooses, or for each line of a run without rows."""
    kind = lookup.get_launch_kind(run) or (AblationRecord if run.of(AblationRecord) else Summary)
    rows = frame.of_run(run, kind)
    if case is not None:
        rows = rows[rows["case"].isin({row.case for row in choose_cases(run.summaries(), case)})]
    print(rows.to_csv(index=False), end="")


def _print_rows(chosen: Sequence[Summary], run: store.Run, *, as_plot: bool, is_short: bool) -> None:
    """Print rows for people: a plot, the overview, or everything that was measured."""
    if as_plot:
        _print_missing_rows(run)
        plot.print_leads(console(), chosen, run.environment, run.started)
        return
    print(f"run {run.name}\n")
    _print_missing_rows(run)
    show = print_run if is_short else print_cases
    show(chosen, run.environment, run.started)
    print_tradeoffs(chosen, run, is_short=is_short)


def _has_other_lines(run: store.Run) -> bool:
    """True if what the run says is not in rows of a suite or model."""
    return lookup.is_history(run) or bool(run.of(AblationRecord)) or lookup.get_launch_kind(run) is not None


def _check_forms_of(run: store.Run, forms: Mapping[str, bool]) -> None:
    """UsageError if a form of output is asked for that a run without rows of a suite or model does not have."""
    options = [option for option, is_given in forms.items() if is_given]
    if options:
        what = lookup.describe_kind(run)
        raise UsageError(f"{_join_options(options)} for runs of a suite or model, and {run.name} is {what}")


def _show_other(
    run: store.Run, into: Path | None, marker: str, *, with_details: bool, as_markdown: bool, as_json: bool
) -> None:
    """Print a run that is no measurement of a suite or model."""
    if lookup.is_history(run):
        _show_history(run, as_json=as_json)
    elif run.of(AblationRecord):
        _show_ablation(run, into, marker, with_details=with_details, as_markdown=as_markdown, as_json=as_json)
    else:
        show_launches(run, into, marker, as_markdown=as_markdown, as_json=as_json)


def _show_history(run: store.Run, *, as_json: bool) -> None:
    tracks = steps.follow(run, MachineNoise(run.path.parents[2], exclude=run.path))
    if as_json:
        print_json({"path": str(run.path), "cases": history.to_dict(tracks)})
        return
    print(f"run {run.name}\n")
    overview_terminal.write_paragraph(console(), overview.describe_place(run.environment, run.started))
    if not run.of(CommitRecord):
        overview_terminal.write_paragraph(console(), _describe_unfinished(run), style="bold")
    history.print_history(console(), tracks)


def _check_forms(given: Mapping[str, bool]) -> None:
    """UsageError if more than one form of output is asked for; the others would be left out silently."""
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)}: each is a form of the whole output; give one of them")


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


def print_run(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> None:
    """Print the overview, and how latency grows with a size that was swept."""
    printer = console()
    overview_terminal.print_overview(printer, overview.describe(summaries, environment, started))
    print_growth(printer, growth.fitted(summaries))


def print_cases(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> None:
    """Print everything that was measured, a case at a time."""
    printer = console()
    overview_terminal.write_paragraph(printer, overview.describe_place(environment, started))
    overview_terminal.write_paragraph(printer, markdown.heading(environment).replace("`", ""), style="dim")
    told: notes.Reasons = {}
    for one in standing.judge_cases(summaries):
        printer.print()
        ranked.print_block(printer, one, told)
        details.print_details(printer, one, environment)
    printer.print()
    overview_terminal.write_paragraph(printer, f"Every word: {overview.GUIDE}.", style="dim")


def describe_accuracy(run: store.Run) -> dict[str, Any]:
    """The lines of accuracy of a run for JSON; nothing for a run without them."""
    found = run.of(AccuracyRecord)
    return {"accuracy": [store.to_json(line) for line in found]} if found else {}


def print_tradeoffs(summaries: Sequence[Summary], run: store.Run, *, is_short: bool = True) -> None:
    """Print time, bytes and accuracy of each model that was scored; nothing for a run without accuracy."""
    printer = console()
    found = _list_tradeoffs(summaries, run)
    for one in found:
        printer.print()
        overview_terminal.write_paragraph(printer, one.title, style="bold")
        print_table(tables.tabulate_tradeoff(one, is_short=is_short))
        for text in tables.describe_tradeoff(one, is_short=is_short):
            overview_terminal.write_paragraph(printer, text, style="dim")
    if found:
        printer.print()
        overview_terminal.write_paragraph(printer, tables.TRADEOFF_LEGEND, style="dim")


def _list_tradeoffs(summaries: Sequence[Summary], run: store.Run) -> list[tradeoff.Tradeoff]:
    lines = run.of(AccuracyRecord)
    return tradeoff.list_tradeoffs(summaries, run.of(Samples), lines, run.environment) if lines else []


def warn_of_faults(run: store.Run) -> None:
    """Say on standard error which faults of the harness the run is older than."""
    for fault in superseded.known(run.path).of_run(run.name):
        print(f"superseded: {run.name}: {fault.reason} (mended in {fault.fixed})", file=sys.stderr)


def describe_missing_rows(run: store.Run) -> str:
    """How much of an unfinished run is stored, and how it goes on, in one line; empty for a complete run."""
    return _describe_unfinished(run) if run.unfinished else ""


def _describe_unfinished(run: store.Run) -> str:
    command = describe_resuming(run.path)
    return f"Unfinished: {run.unfinished}." + (f" To continue: {command}" if command is not None else "")


def _print_missing_rows(run: store.Run) -> None:
    if described := describe_missing_rows(run):
        overview_terminal.write_paragraph(console(), described, style="bold")
        print()


def _warn_of_missing_rows(run: store.Run) -> None:
    """Say on standard error that rows are missing: forms for programs have no place for the line."""
    if described := describe_missing_rows(run):
        print(f"{run.name}: {described}", file=sys.stderr)


def link_to(guide: str, page: Path | None) -> str:
    """The link to a page of this checkout, from the page at `page`; as it is where the page is somewhere else."""
    root = machine.checkout()
    if page is None or root is None or not resolve_links(page).is_relative_to(root):
        return guide
    return os.path.relpath(root / guide, resolve_links(page).parent)


def _write_markdown(summaries: Sequence[Summary], run: store.Run, page: Path | None) -> str:
    described = overview.describe(summaries, run.environment, run.started)
    text = overview_markdown.write_markdown(described, run.environment, link_to(overview.GUIDE, page))
    found = _list_tradeoffs(summaries, run)
    blocks = [
        f"**{one.title}**\n\n"
        + tables.write_markdown(
            tables.tabulate_tradeoff(one, is_short=False), tables.describe_tradeoff(one, is_short=False)
        )
        for one in found
    ]
    legend = [tables.TRADEOFF_LEGEND.replace(tables.FRONT, f"\\{tables.FRONT}", 1)] if found else []
    unfinished = describe_missing_rows(run)
    return "\n\n".join([*([f"**{unfinished}**"] if unfinished else []), text.rstrip(), *blocks, *legend]) + "\n"


def show_launches(
    run: store.Run, into: Path | None = None, marker: str = "", *, as_markdown: bool = False, as_json: bool
) -> None:
    """Print the lines of kernels or of a profile, or write them between the markers of a page."""
    kernels, nodes = run.of(KernelRecord), run.of(NodeRecord)
    lines = kernels or nodes
    if into is not None:
        markdown.write_between(into, marker, launches.write_markdown(lines, run.environment))
    elif as_json:
        known = {"path": str(run.path), "environment": store.to_json(run.environment)}
        print_json(known | {"lines": [store.to_json(line) for line in lines]})
    elif as_markdown:
        print(launches.write_markdown(lines, run.environment), end="")
    else:
        printer = console()
        overview_terminal.write_paragraph(printer, f"run {run.name}, {lookup.describe_kind(run)}")
        print()
        overview_terminal.write_paragraph(printer, overview.describe_place(run.environment, run.started))
        if kernels:
            overview_terminal.write_paragraph(printer, f"{launches.describe_kernel_roofs(kernels)}.")
            print_table(launches.tabulate_kernels(kernels))
        for title, group in launches.group_cases(nodes).items():
            overview_terminal.write_paragraph(printer, f"{title}; {launches.describe_node_roofs(group)}.")
            print_table(launches.tabulate_nodes(group))
        legend = launches.KERNEL_LEGEND if kernels else launches.NODE_LEGEND
        overview_terminal.write_paragraph(printer, legend, style="dim")


def _show_ablation(
    run: store.Run, into: Path | None, marker: str, *, with_details: bool, as_markdown: bool, as_json: bool
) -> None:
    records = run.of(AblationRecord)
    samples, guide = run.of(Samples), link_to(ablation_table.GUIDE, into)
    text = ablation_table.write_markdown(records, run.environment, guide, samples)
    if described := describe_missing_rows(run):
        text = f"**{described}**\n\n{text}"
    if into is not None:
        markdown.write_between(into, marker, text)
    elif as_json:
        _warn_of_missing_rows(run)
        print_json(ablation.to_dict([run.path], run.environment, records))
    elif as_markdown:
        print(text)
    else:
        print(f"run {run.name}\n")
        _print_missing_rows(run)
        ablation_terminal.print_ablation(
            console(), records, run.environment, run.started, samples, with_details=with_details
        )
