"""The rows of one case, best first, with a bar each. Reads records only.

Fits 80 columns; on narrower outputs bars are left out first, then the share of the roof, then the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.judge.standing import Standing, get_latency
from suites.harness.present import names, notes, units
from suites.harness.present.overview_terminal import VERDICT_STYLES, write_paragraph
from suites.harness.present.terminal import draw_bar, is_ascii, measure_width, print_table, print_text
from suites.harness.record.schema import Summary

BAR = 16
"""Characters of the longest bar."""
LABEL = 24
"""A label that is longer has a letter instead of its options."""


def print_block(console: Console, one: Standing, told: notes.Reasons | None = None) -> None:
    """Print the case: title, verdict, a line a backend, and what a reader must know.

    Args:
        console: where to.
        one: the case.
        told: as of `notes.explain_case`: what the blocks above have given as reasons.
    """
    labels = shorten_labels(list(one.rows))
    _print_title(console, one, labels)
    for parts in (("speed", "roof", "bar"), ("speed", "roof"), ("speed",), ()):
        table = _make_table(console, one, labels, parts)
        if measure_width(console, table) + 2 <= console.width:
            break
    print_table(console, table, indent=2)
    for text in (*explain_labels(labels), *notes.explain_case(one, told)):
        write_paragraph(console, text, indent=2, style="dim")


def shorten_labels(labels: Sequence[str]) -> dict[str, str]:
    """Label -> the label, or the name and a letter for options that are long: ``onnxruntime[a]``."""
    letters = iter(ascii_lowercase)
    found = {}
    for label in labels:
        name, bracket, _ = label.partition("[")
        letter = next(letters, "") if bracket and len(label) > LABEL else ""
        found[label] = f"{name}[{letter}]" if letter else label
    return found


def explain_labels(labels: Mapping[str, str]) -> list[str]:
    """What each letter of `shorten_labels` stands for."""
    return [
        f"{short[short.index('[') :]} {label.partition('[')[2][:-1]}"
        for label, short in labels.items()
        if short != label
    ]


def describe_outcome(one: Standing, labels: Mapping[str, str]) -> tuple[str, str]:
    """Who is first and by how much, and the verdict: ``engine first, 1.10x as fast as openvino [1.03, 1.17]: faster``.

    The median latencies say who is first. The paired rounds may give the other order; then the text says both.

    Args:
        one: the case.
        labels: label of a backend -> how to write it.
    """
    if not one.timed:
        return "no backend has a time", ""
    engine_row, lead = (one.timed[0], one.margin) if one.has_only_forms else (one.engine, one.lead)
    if engine_row is None or lead is None:
        return f"{labels[one.timed[0].backend]} first", ""
    engine, other = labels[engine_row.backend], labels.get(lead.other, lead.other)  # its row may be missing
    value, interval = units.times(lead.speed.value), units.interval(lead.speed)
    is_opposite = round(lead.speed.value, 2) < 1 if one.is_first else round(lead.speed.value, 2) > 1
    first = (
        f"{engine if one.is_first else other} first{' by median latency, but in paired rounds' if is_opposite else ','}"
    )
    subject = "" if one.is_first and not is_opposite else f"{engine} "
    return f"{first} {subject}{value} as fast as {other} {interval}: {lead.verdict}", lead.verdict


def _print_title(console: Console, one: Standing, labels: Mapping[str, str]) -> None:
    row = next(iter(one.rows.values()))
    outcome, word = describe_outcome(one, labels)
    title = Text.assemble((row.model, "bold"), f"  {names.describe_case(row)}")
    verdict = Text(outcome, VERDICT_STYLES.get(word, ""))
    if title.cell_len + 2 + verdict.cell_len <= console.width:
        print_text(console, Text.assemble(title, "  ", verdict))
        return
    print_text(console, title)
    write_paragraph(console, outcome, indent=2, style=VERDICT_STYLES.get(word, ""))


def _make_table(console: Console, one: Standing, labels: Mapping[str, str], parts: Sequence[str]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("latency", justify="right", no_wrap=True)
    baseline = next(iter(one.rows.values())).baseline
    writers: dict[str, Callable[[Summary], Text]] = {
        "speed": lambda row: Text(_write_speed(row)),
        "roof": lambda row: Text(units.percent(row.roof_share)),
        "bar": lambda row: _write_bar(console, one, row),
    }
    headings = {"speed": f"speed vs {labels.get(baseline, baseline)}", "roof": "of roof", "bar": "time"}
    useful = {
        "speed": any(row.speed is not None or row.backend == baseline for row in one.timed),
        "roof": any(row.roof_share for row in one.timed),
    }
    shown = [part for part in parts if useful.get(part, True)]
    for part in shown:
        heading = Text(headings[part])  # a text would lose the options of a label, which rich reads as a style
        table.add_column(heading, justify="right" if part == "roof" else "left", no_wrap=True)
    for row in one.timed:
        style = "bold" if row is one.timed[0] else ""
        latency = Text(units.seconds(get_latency(row)), style)
        table.add_row(Text(labels[row.backend], style), latency, *(writers[part](row) for part in shown))
    for row in one.rows.values():
        if row.latency is None:
            table.add_row(Text(labels[row.backend], "dim"), Text(row.status, "dim"))
    return table


def _write_speed(row: Summary) -> str:
    """The speed against the baseline of the case; ``-`` where that has no time."""
    if row.backend == row.baseline:
        return "1.00x"
    return "-" if row.speed is None else units.factor(row.speed)


def _write_bar(console: Console, one: Standing, row: Summary) -> Text:
    longest = max(get_latency(other) for other in one.timed)
    style = "green" if row.role == "engine" else "cyan"
    return Text(draw_bar(get_latency(row) / longest, BAR, ascii_only=is_ascii(console)), style)
