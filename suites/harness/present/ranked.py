"""The rows of one case, best first, with a bar each. Reads records only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

from suites.harness.judge.judged_case import JudgedCase, get_latency
from suites.harness.present import names, notes, units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Cell, Column, Table
from suites.harness.present.terminal import VERDICT_STYLES, draw_bar
from suites.harness.record.schema import Summary

BAR = 16
"""Characters of the longest bar."""
LABEL = 24
"""A label that is longer has a letter instead of its options."""


def describe_case(one: JudgedCase) -> list[Part]:
    """Title, verdict, a line a backend, and what a reader must know."""
    labels = shorten_labels(list(one.rows))
    row = next(iter(one.rows.values()))
    outcome, word = describe_outcome(one, labels)
    return [
        Paragraph(f"{row.model}  {names.describe_case(row)}", "bold"),
        Paragraph(outcome, VERDICT_STYLES.get(word, "")),
        _make_table(one, labels),
        *(Paragraph(text, "dim") for text in (*explain_labels(labels), *notes.explain_case(one))),
    ]


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


def describe_outcome(one: JudgedCase, labels: Mapping[str, str]) -> tuple[str, str]:
    """Who is first and by how much, and the verdict: ``engine first, 1.10x as fast as openvino [1.03, 1.17]: faster``.

    The median latencies say who is first. The paired rounds may give the other order; then the text says both.
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


def _make_table(one: JudgedCase, labels: Mapping[str, str]) -> Table:
    baseline = next(iter(one.rows.values())).baseline
    columns = [Column(), Column("latency", "right")]
    has_speeds = any(row.speed is not None or row.backend == baseline for row in one.timed)
    has_shares = any(row.roof_share for row in one.timed)
    columns += [Column(f"speed vs {labels.get(baseline, baseline)}", level=1)] if has_speeds else []
    columns += [Column("of roof", "right", level=2)] if has_shares else []
    table = Table([*columns, Column("time", level=3, is_drawing=True)], has_rule=False)
    longest = max((get_latency(row) for row in one.timed), default=0.0)
    for row in one.timed:
        style = "bold" if row is one.timed[0] else ""
        cells = [Cell(labels[row.backend], style), Cell(units.seconds(get_latency(row)), style)]
        cells += [Cell(_write_speed(row))] if has_speeds else []
        cells += [Cell(units.percent(row.roof_share))] if has_shares else []
        bar = draw_bar(get_latency(row) / longest, BAR)
        table.add(*cells, Cell(bar, "green" if row.role == "engine" else "cyan"))
    for row in one.rows.values():
        if row.latency is None:
            table.add(labels[row.backend], row.status, *[""] * (len(table.columns) - 2), style="dim")
    return table


def _write_speed(row: Summary) -> str:
    """The speed against the baseline of the case; ``-`` where that has no time."""
    if row.backend == row.baseline:
        return "1.00x"
    return "-" if row.speed is None else units.factor(row.speed)
