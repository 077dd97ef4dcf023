"""What a person sees while a run goes on: a live table and a bar on a terminal, plain lines elsewhere.

Knows no measurement: a run tells a `Reporter` what it does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from suites.harness.judge import judged_case
from suites.harness.present import ranked, units
from suites.harness.present.report import print_report
from suites.harness.record.schema import Summary
from suites.harness.run.reporter import Reporter

QUIET_S = 60.0
"""A log gets a line at least about as often, where a case takes long."""
WHOLE_RUN_S = 1e6
"""Longer than any run, in seconds."""
LOG_WIDTH = 100
"""Columns of a log."""


class PlainReporter(Reporter):
    """Lines with the time since the start, for logs and pipes.

    Args:
        stream: where to.
        shows_cases: print the rows of each case; False where the command prints them at its end.
    """

    def __init__(self, stream: TextIO, *, shows_cases: bool = True) -> None:
        self._shows_cases = shows_cases
        self._stream = stream
        self._begin = self._said = self._started = time.monotonic()
        self._done = self._units = self._skipped = 0

    def start(self, units: int, text: str, done: int = 0) -> None:
        """Announce the work."""
        if not self._units:
            self._started = time.monotonic()
        self._units += units
        self.skip(done)
        earlier = f", {done} of them in the run that is resumed" if done else ""
        self.say(f"{text}: {units} worker process{'' if units == 1 else 'es'}{earlier}")

    def skip(self, units: int) -> None:
        """Count, but not for the pace."""
        self._done += units
        self._skipped += units

    def advance(self, units: int = 1) -> None:
        """Count; where nothing has been said for a while, how long it will take at the pace so far."""
        self._done += units
        now = time.monotonic()
        if now - self._said >= QUIET_S and self._done < self._units:
            left = (now - self._started) / (self._done - self._skipped) * (self._units - self._done)
            self.say(f"about {max(left / 60, 1):.0f} min left at this pace")

    def finished(self, case: str, number: int, cases: int, summaries: Sequence[Summary]) -> None:
        """The case, its place among all, and its rows, best first."""
        self.say(f"{case}  ({number} of {cases})")
        if self._shows_cases:
            _print_case(Console(file=self._stream, width=LOG_WIDTH, color_system=None), summaries)

    def say(self, text: str) -> None:
        """Print at once, so that a log can be followed."""
        self._said = time.monotonic()
        passed = int(self._said - self._begin)
        counted = f" {self._done}/{self._units}" if self._units else ""
        print(f"[{passed // 60:02d}:{passed % 60:02d}{counted}] {text}", file=self._stream, flush=True)


class LiveReporter(Reporter):
    """A table of the case in flight and a bar below it, both redrawn in place; lines that stay go above.

    Redrawn once a second, because that takes a processor away from what is measured for some milliseconds.

    Args:
        console: where to.
        shows_cases: as of `PlainReporter`.
    """

    def __init__(self, console: Console, *, shows_cases: bool = True) -> None:
        self._shows_cases = shows_cases
        columns = (
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        # A unit may take a minute: the pace is that of the whole run, where rich would look half a minute back.
        self._bar = Progress(*columns, console=console, speed_estimate_period=WHOLE_RUN_S)
        self._task = self._bar.add_task("starting", total=None)
        self._title = ""
        self._rows: dict[str, tuple[str, str]] = {}
        self._live = Live(get_renderable=self._drawn, console=console, transient=True, refresh_per_second=1)

    def _drawn(self) -> Group:
        if not self._rows:
            return Group(self._bar)
        found = Table("backend", "now", "latency so far", title=Text(self._title), title_justify="left")
        for label, (state, latency) in list(self._rows.items()):
            found.add_row(*map(Text, (label, state, latency)))
        return Group(found, self._bar)

    def start(self, units: int, text: str, done: int = 0) -> None:
        """Set the length of the bar."""
        known = self._bar.tasks[0].total or 0
        self._bar.update(self._task, total=known + units, description=text)
        self.skip(done)

    def doing(self, text: str) -> None:
        """Show beside the bar."""
        self._bar.update(self._task, description=text)

    def advance(self, units: int = 1) -> None:
        """Move the bar."""
        self._bar.advance(self._task, units)

    def skip(self, units: int) -> None:
        """Move the bar without a sample of its pace."""
        self._bar.tasks[0].completed += units

    def rows(self, title: str, labels: Sequence[str]) -> None:
        """Begin a table; a latency known from an earlier generation stays until there is a new one."""
        known = self._rows if title == self._title else {}
        self._title = title
        self._rows = {label: ("waiting", known[label][1] if label in known else "") for label in labels}

    def row(self, label: str, state: str, latency: float | None = None) -> None:
        """Rewrite one row."""
        before = self._rows.get(label, ("", ""))
        self._rows[label] = (state, before[1] if latency is None else units.seconds(latency))

    def finished(self, case: str, number: int, cases: int, summaries: Sequence[Summary]) -> None:
        """The rows of the case, best first; its place among all is in the bar."""
        del case, number, cases
        if self._shows_cases:
            _print_case(self._live.console, summaries)

    def say(self, text: str) -> None:
        """Print above the table."""
        self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def _print_case(console: Console, summaries: Sequence[Summary]) -> None:
    for one in judged_case.judge_cases(summaries):
        print_report(console, ranked.describe_case(one))
        console.print()


def reporter(*, shows_cases: bool = True) -> Reporter:
    """The reporter for standard error: progress goes there, so that standard output holds the answer alone.

    Args:
        shows_cases: as of `PlainReporter`.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        return LiveReporter(console, shows_cases=shows_cases)
    return PlainReporter(sys.stderr, shows_cases=shows_cases)
