"""The engine's lead in every case as intervals on one axis, for a terminal. Reads records only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.judge import standing
from suites.harness.judge.standing import Lead, Standing
from suites.harness.present import names, overview, units
from suites.harness.present.overview_terminal import VERDICT_STYLES, write_paragraph
from suites.harness.present.terminal import (
    choose_box,
    choose_reach,
    draw_interval,
    is_ascii,
    measure_width,
    print_table,
    print_text,
)
from suites.harness.record.schema import Environment, Summary

WIDEST, NARROWEST = 61, 15
"""Characters of the axis: odd, so that 1 has a place in the middle."""


def print_leads(
    console: Console, summaries: Sequence[Summary], environment: Environment, started: datetime | None
) -> None:
    """Print a line a case: the engine against the fastest other backend, with its 95% interval around 1."""
    standings = standing.judge_cases(summaries)
    short = names.shorten_names(summaries)
    common = names.describe_common(summaries)
    floor = overview.describe_floor(standings)
    write_paragraph(console, f"{overview.describe_place(environment, started, common)}; {floor}")
    leads = [(one, one.lead) for one in standings if one.lead is not None]
    if not leads:
        write_paragraph(console, "No case has a time of the engine and of another backend.")
        return
    reach = choose_reach([lead.speed for _, lead in leads], least=1.25)
    for width in range(WIDEST, NARROWEST - 2, -2):
        table = _make_table(console, leads, short, reach, width)
        if measure_width(console, table) <= console.width:
            print_table(console, table)
            break
    else:
        _print_stacked(console, leads, short, reach)
    write_paragraph(console, str(standing.count_firsts(standings)), style="bold")
    ends = f"the axis goes from {units.times(1 / reach)} to {units.times(reach)}, logarithmic, 1 in the middle"
    text = "Time of the fastest other backend over the engine's, with its 95% interval: right of 1 the engine is faster"
    write_paragraph(console, f"{text}; {ends}.", style="dim")


def _make_table(
    console: Console, leads: Sequence[tuple[Standing, Lead]], short: dict[str, str], reach: float, width: int
) -> Table:
    """A line a case, with an axis of `width` characters."""
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 0, 0, 1), pad_edge=False)
    for heading in ("case", overview.BEST_OTHER, "", ""):
        table.add_column(heading, no_wrap=True)
    for one, lead in leads:
        value = f"{units.times(lead.speed.value)} {_name_other(lead)}"
        table.add_row(Text(short[one.case]), Text(value), *_draw(console, lead, reach, width))
    return table


def _print_stacked(
    console: Console, leads: Sequence[tuple[Standing, Lead]], short: dict[str, str], reach: float
) -> None:
    """Two lines a case, where its name leaves no room for the axis."""
    words = max(len(lead.verdict) for _, lead in leads)
    values = max(len(units.times(lead.speed.value)) for _, lead in leads)
    width = max(NARROWEST, console.width - words - values - 4) // 2 * 2 - 1
    for one, lead in leads:
        print_text(console, Text(f"{short[one.case]}  {_name_other(lead)}"))
        drawn, word = _draw(console, lead, reach, width)
        value = units.times(lead.speed.value).rjust(values)
        print_text(console, Text.assemble(f"{value} ", drawn, " ", word), 2)


def _name_other(lead: Lead) -> str:
    return lead.other.partition("[")[0]


def _draw(console: Console, lead: Lead, reach: float, width: int) -> tuple[Text, Text]:
    """The interval on its axis, and the verdict."""
    style = VERDICT_STYLES.get(lead.verdict, "")
    return Text(draw_interval(lead.speed, reach, width, ascii_only=is_ascii(console)), style), Text(lead.verdict, style)
