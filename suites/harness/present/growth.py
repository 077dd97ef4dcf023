"""How latency grows with a size that was swept, for a terminal: a block a sweep, a line a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.judge.growth import Growth
from suites.harness.present.names import describe_case
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.present.ranked import explain_labels, shorten_labels
from suites.harness.present.terminal import draw_bar, is_ascii, measure_width, print_table

BAR = 16
"""Characters of the longest bar."""
LEGEND = (
    "exponent: fitted to the latencies at all sizes, with its 95% interval. At 1, twice the size takes twice the time; "
    "below 1, a larger call costs less per element, which may only mean that a small one has a large fixed cost."
)


def print_growth(console: Console, found: Sequence[Growth]) -> None:
    """Print a block for each sweep, the smallest exponent first; nothing where `found` is empty."""
    sweeps: dict[str, list[Growth]] = {}
    for one in found:
        sweeps.setdefault(_describe_sweep(one), []).append(one)
    for title, members in sweeps.items():
        console.print()
        write_paragraph(console, f"{title}: latency grows as {members[0].axis}^exponent", style="bold")
        labels = shorten_labels([one.row.backend for one in members])
        for with_bars in (True, False):
            table = _make_table(console, members, labels, with_bars=with_bars)
            if measure_width(console, table) + 2 <= console.width:
                break
        print_table(console, table, indent=2)
        for text in explain_labels(labels):
            write_paragraph(console, text, indent=2, style="dim")
    if sweeps:
        write_paragraph(console, LEGEND, style="dim")


def _describe_sweep(one: Growth) -> str:
    """``minilm  sequence 8 to 256, batch 1, 1 thread, fp32``."""
    rest = describe_case(one.row, without=one.axis)
    return f"{one.row.model}  {one.axis} {one.sizes[0]} to {one.sizes[-1]}, {rest}"


def _make_table(console: Console, members: Sequence[Growth], labels: Mapping[str, str], *, with_bars: bool) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "exponent", *([""] if with_bars else [])):
        table.add_column(heading, no_wrap=True)
    most = max(one.exponent for one in members)
    for one in sorted(members, key=lambda one: one.exponent):
        bar = draw_bar(one.exponent / most, BAR, ascii_only=is_ascii(console)) if one.exponent > 0 else ""
        text = f"{one.exponent:.2f} [{one.low:.2f}, {one.high:.2f}]"
        table.add_row(Text(labels[one.row.backend]), Text(text), *([bar] if with_bars else []))
    return table
