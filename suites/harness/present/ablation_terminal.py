"""An ablation on a terminal: a line a switch with its effect, verdict and interval. Reads records only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.present import ablation_table, markdown
from suites.harness.present.ablation_table import Row
from suites.harness.present.overview import describe_place
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.present.terminal import (
    choose_box,
    choose_reach,
    draw_interval,
    is_ascii,
    measure_width,
    print_table,
    print_text,
)
from suites.harness.record.schema import AblationRecord, Environment, Samples

PLOT = 21
"""Characters of the axis of intervals."""
_STYLES = {"faster": "green", "slower": "red", "unclear": "dim", "not reached": "dim"}
_PARTS = (("kind", "plot"), ("plot",), ())
"""Columns beside switch, effects and verdicts; the first ones that fit are printed."""


def print_ablation(
    console: Console,
    records: Sequence[AblationRecord],
    environment: Environment,
    started: datetime | None,
    samples: Sequence[Samples] = (),
    *,
    with_details: bool = False,
) -> None:
    """Print the tables of all cases; with details, also versions and the counts with each switch changed.

    Args:
        console: where to.
        records: of one run, or of the runs of one ablation.
        environment: of the run.
        started: when it began.
        samples: of the same runs, for the note on reference kernels.
        with_details: whether to print the details.
    """
    write_paragraph(console, describe_place(environment, started))
    if with_details:
        write_paragraph(console, markdown.heading(environment).replace("`", ""), style="dim")
    for case, own in ablation_table.group_cases(records).items():
        whole = ablation_table.get_whole(own)
        console.print()
        title = f"  {whole} taken apart; {ablation_table.describe_floor(own)}"
        print_text(console, Text.assemble((case, "bold"), title))
        for rows, heading in (
            (ablation_table.list_switches(own), "left out"),
            (ablation_table.list_pairs(own), "interaction"),
        ):
            if rows:
                _print_fitting(console, rows, heading)
        if with_details:
            _print_counts(console, ablation_table.list_switches(own))
        for note in ablation_table.write_notes(own, samples):
            write_paragraph(console, note, indent=2)
    console.print()
    details = "" if with_details else " Counts: enginebench show RUN --details."
    legend = f"{ablation_table.write_legend(records)}. Every word: {ablation_table.GUIDE}.{details}"
    write_paragraph(console, legend, style="dim")


def _print_fitting(console: Console, rows: Sequence[Row], heading: str) -> None:
    """Print all effects with their intervals: as one table, one for each mode, or a line for each effect."""
    left_out = [replace(row, alone=None) for row in rows if row.left_out is not None]
    alone = [Row(row.switch, row.kind, row.alone, None) for row in rows if row.alone is not None]
    if not left_out:
        rows, heading, alone = alone, "alone", []
    for parts in _PARTS:
        table = _make_table(console, rows, heading, parts)
        if measure_width(console, table) + 2 <= console.width:
            print_table(console, table, indent=2)
            return
    if alone:
        _print_fitting(console, left_out, heading)
        console.print()
        _print_fitting(console, alone, "alone")
    else:
        _print_lines(console, rows, heading)


def _make_table(console: Console, rows: Sequence[Row], heading: str, parts: Sequence[str]) -> Table:
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 0, 0, 1), pad_edge=False)
    has_alone = any(row.alone is not None for row in rows)
    names = ["switch", *(["kind"] if "kind" in parts else []), heading, ""]
    names += ([""] if "plot" in parts else []) + (["alone", ""] if has_alone else [])
    for name in names:
        table.add_column(name, no_wrap=True)
    timed = [row.left_out.speed for row in rows if row.left_out is not None and row.left_out.speed is not None]
    reach = choose_reach(timed)
    for row in rows:
        cells = [Text(row.switch), *([Text(row.kind)] if "kind" in parts else []), *_write_verdict(row.left_out)]
        if "plot" in parts:
            speed = row.left_out.speed if row.left_out is not None and row.left_out.reached else None
            cells.append(Text(draw_interval(speed, reach, PLOT, ascii_only=is_ascii(console)) if speed else ""))
        cells += _write_verdict(row.alone) if has_alone else []
        table.add_row(*cells)
    return table


def _print_lines(console: Console, rows: Sequence[Row], heading: str) -> None:
    """Print a heading, and for each switch its name and below it the effect; `alone` of the rows is not read."""
    write_paragraph(console, f"{heading}:", indent=2)
    for row in rows:
        write_paragraph(console, row.switch, indent=2)
        words = (ablation_table.write_effect(row.left_out), ablation_table.write_verdict(row.left_out))
        write_paragraph(console, "  ".join(filter(None, words)), indent=4)


def _write_verdict(record: AblationRecord | None) -> Iterator[Text]:
    word = ablation_table.write_verdict(record)
    yield Text(ablation_table.write_effect(record))
    yield Text(word, _STYLES.get(word, ""))


def _print_counts(console: Console, rows: Sequence[Row]) -> None:
    counts = {row.switch: ablation_table.write_counts(row) for row in rows}
    names = list(dict.fromkeys(name for one in counts.values() for name in one))
    while names:
        fitting = len(names)
        while (
            fitting > 1 and measure_width(console, _make_counts(console, counts, names[:fitting])) + 2 > console.width
        ):
            fitting -= 1
        table = _make_counts(console, counts, names[:fitting])
        print_table(console, table, indent=2)
        names = names[fitting:]


def _make_counts(console: Console, counts: dict[str, dict[str, str]], names: Sequence[str]) -> Table:
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("changed", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for switch, one in counts.items():
        if any(name in one for name in names):
            table.add_row(Text(switch), *(Text(one.get(name, "")) for name in names))
    return table
