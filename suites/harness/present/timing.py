"""What the time of a run was spent on, as a table with bars for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.present import units
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.present.terminal import draw_bar, is_ascii, measure_width, print_table
from suites.harness.run.stopwatch import Stopwatch

BAR = 24
"""Characters of the longest bar."""


def print_timing(console: Console, stopwatch: Stopwatch) -> None:
    """Print a line a phase, the longest first."""
    seconds = stopwatch.read()
    total, longest = sum(seconds.values()), max(seconds.values())
    for with_bars in (True, False):
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("phase", "time", "share", *([""] if with_bars else [])):
            table.add_column(heading, justify="right" if heading in ("time", "share") else "left", no_wrap=True)
        for phase, spent in seconds.items():
            share = Text(units.percent(spent / total if total else 0))
            bar = draw_bar(spent / longest, BAR, ascii_only=is_ascii(console)) if longest and spent else ""
            table.add_row(Text(phase), Text(units.seconds(spent)), share, *([bar] if with_bars else []))
        if measure_width(console, table) + 2 <= console.width:
            break
    console.print()
    note = "Workers that are prepared at the same time share its wall time in proportion to their work."
    write_paragraph(console, f"The run took {units.seconds(total)}. {note}")
    print_table(console, table, indent=2)
