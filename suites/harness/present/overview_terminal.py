"""An overview on a terminal: a line a case where that fits, else cells of two lines, else a few words a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.present.overview import BEST_OTHER, GUIDE, LeadCell, Line, Overview, Time, fold_label
from suites.harness.present.terminal import choose_box, is_plain, measure_width, print_table, print_text

VERDICT_STYLES = {"faster": "green", "slower": "red", "same": "", "unclear": "dim"}
STAR = "*"
"""Follows the fastest time where the output cannot show bold text."""


def print_overview(console: Console, overview: Overview) -> None:
    """Print all of it, in the widest form that fits."""
    write_paragraph(console, overview.heading)
    tables = (_make_table(console, overview, is_folded=is_folded) for is_folded in (False, True))
    table = next((one for one in tables if measure_width(console, one) <= console.width), None)
    if table is not None:
        print_table(console, table)
    else:
        _print_stacked(console, overview)
    if overview.closing:
        console.print()
        write_paragraph(console, overview.closing, style="bold")
    for text in (_legend(console, overview), *overview.notes):
        write_paragraph(console, text, style="dim")


def write_paragraph(console: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """Print text as it is, wrapped between words."""
    print_text(console, Text(text, style), indent)


def _legend(console: Console, overview: Overview) -> str:
    fastest = f"{STAR} the fastest" if is_plain(console) else "the fastest in bold"
    text = f"Median latency of a call, {fastest}, lower is better"
    if BEST_OTHER in overview.leads:
        text += (
            f". {BEST_OTHER}: speed of the engine against the fastest other backend, with its 95% interval; "
            "above 1 the engine is faster"
        )
    return f"{text}. Every word: {GUIDE}. All numbers of a case: enginebench show RUN --details"


def _make_table(console: Console, overview: Overview, *, is_folded: bool) -> Table:
    gap = 0 if is_folded else 1  # beside the character that the box has between columns
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 0, 0, gap), pad_edge=False)
    fold: Callable[[Sequence[str]], str] = "\n".join if is_folded else " ".join
    table.add_column("case", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in overview.columns:
        table.add_column(Text("\n".join(fold_label(column)) if is_folded else column), justify="right", no_wrap=True)
    for heading in overview.leads:
        first, rest = heading.split(" ", 1)
        table.add_column(Text("\n".join([first, *fold_label(rest)]) if is_folded else heading), no_wrap=True)
        table.add_column("", no_wrap=True)
    has_marks = any(line.marks for line in overview.lines)
    if has_marks:
        table.add_column("", no_wrap=True)
    for line in overview.lines:
        name = fold(_split_name(line.name))
        cells = [Text(name), Text(line.unit), *(_write_time(console, time) for time in line.times)]
        for lead in line.leads:
            cells += [Text(fold([lead.value, lead.interval])), Text(lead.verdict, VERDICT_STYLES.get(lead.verdict, ""))]
        table.add_row(*cells, *([Text(line.marks)] if has_marks else []), style="dim" if line.is_doubtful else "")
    return table


def _split_name(name: str) -> list[str]:
    """A short name in two parts: the model, and the rest."""
    model, space, rest = name.partition(" ")
    return [model, rest] if space else [model]


def _write_time(console: Console, time: Time | None) -> Text:
    if time is None:
        return Text("")
    if is_plain(console):
        return Text(time.text + (STAR if time.is_best else " "))
    return Text(time.text, "bold" if time.is_best else "")


def _print_stacked(console: Console, overview: Overview) -> None:
    """A few lines a case: its name, the times, the comparisons."""
    for line in overview.lines:
        console.print()
        marks = f"  {line.marks}" if line.marks else ""
        console.print(Text(f"{line.name}{marks}", "bold"), highlight=False, soft_wrap=True)
        for text in (_list_times(console, overview, line), *_list_leads(overview, line)):
            print_text(console, text, 2)
    console.print()


def _list_times(console: Console, overview: Overview, line: Line) -> Text:
    entries = [(column, time) for column, time in zip(overview.columns, line.times, strict=True) if time is not None]
    text = Text(f"{line.unit}: " if line.unit else "", overflow="fold")
    for number, (column, time) in enumerate(entries):
        is_starred = is_plain(console) and time.is_best
        text.append(", " if number else "").append(f"{column} ")
        text.append(time.text + (STAR if is_starred else ""), "bold" if time.is_best else "")
    return text


def _list_leads(overview: Overview, line: Line) -> list[Text]:
    shown = [(heading, lead) for heading, lead in zip(overview.leads, line.leads, strict=True) if lead.value]
    return [_write_lead(heading, lead) for heading, lead in shown]


def _write_lead(heading: str, lead: LeadCell) -> Text:
    return Text.assemble(
        f"{lead.value} {lead.interval} {heading}: ", (lead.verdict, VERDICT_STYLES.get(lead.verdict, ""))
    )
