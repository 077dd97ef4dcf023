"""How latency grows with a size that was swept: a table a sweep, a line a backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suites.harness.judge.growth import Growth
from suites.harness.present.names import describe_case
from suites.harness.present.ranked import explain_labels, shorten_labels
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Column, Table
from suites.harness.present.terminal import draw_bar

BAR = 16
"""Characters of the longest bar."""
LEGEND = (
    "exponent: fitted to the latencies at all sizes, with its 95% interval. At 1, twice the size takes twice the time; "
    "below 1, a larger call costs less per element, which may only mean that a small one has a large fixed cost."
)


def describe_growth(found: Sequence[Growth]) -> Iterator[Part]:
    """A table for each sweep, the smallest exponent first; nothing where `found` is empty."""
    sweeps: dict[str, list[Growth]] = {}
    for one in found:
        sweeps.setdefault(_describe_sweep(one), []).append(one)
    for title, members in sweeps.items():
        yield Paragraph(f"{title}: latency grows as {members[0].axis}^exponent", "bold")
        labels = shorten_labels([one.row.backend for one in members])
        table = Table([Column(), Column("exponent"), Column(level=1, is_drawing=True)], has_rule=False)
        most = max(one.exponent for one in members)
        for one in sorted(members, key=lambda one: one.exponent):
            bar = draw_bar(one.exponent / most, BAR) if one.exponent > 0 else ""
            table.add(labels[one.row.backend], f"{one.exponent:.2f} [{one.low:.2f}, {one.high:.2f}]", bar)
        yield table
        yield from (Paragraph(text, "dim") for text in explain_labels(labels))
    if sweeps:
        yield Paragraph(LEGEND, "dim")


def _describe_sweep(one: Growth) -> str:
    """``minilm  sequence 8 to 256, batch 1, 1 thread, fp32``."""
    rest = describe_case(one.row, without=one.axis)
    return f"{one.row.model}  {one.axis} {one.sizes[0]} to {one.sizes[-1]}, {rest}"
