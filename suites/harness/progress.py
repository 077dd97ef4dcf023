"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere. Knows no measurement."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter:
    """Says nothing; the base of those that do. A unit is one worker process."""

    def start(self, units: int, text: str) -> None:
        """`units` of work follow, called `text`."""

    def doing(self, text: str) -> None:
        """What happens right now."""

    def advance(self, units: int = 1) -> None:
        """So much of it is done."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class PlainReporter(Reporter):
    """Lines with the time since the start, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begin = time.monotonic()
        self._done = self._units = 0

    def start(self, units: int, text: str) -> None:
        """Announce the work."""
        self._units += units
        self.say(f"{text}: {units} worker processes")

    def advance(self, units: int = 1) -> None:
        """Count."""
        self._done += units

    def say(self, text: str) -> None:
        """Print at once, so that a log can be followed."""
        passed = int(time.monotonic() - self._begin)
        counted = f" {self._done}/{self._units}" if self._units else ""
        print(f"[{passed // 60:02d}:{passed % 60:02d}{counted}] {text}", file=self._stream, flush=True)


class BarReporter(Reporter):
    """A progress bar with what is being done, and lines that stay above it."""

    def __init__(self, console: Console) -> None:
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("starting", total=None)

    def start(self, units: int, text: str) -> None:
        """Set the length of the bar."""
        known = self._progress.tasks[0].total or 0
        self._progress.update(self._task, total=known + units, description=text)

    def doing(self, text: str) -> None:
        """Show beside the bar."""
        self._progress.update(self._task, description=text)

    def advance(self, units: int = 1) -> None:
        """Move the bar."""
        self._progress.advance(self._task, units)

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def reporter(*, quiet: bool = False) -> Reporter:
    """The one that fits standard error: progress goes there, so that standard output holds the answer alone."""
    if quiet:
        return Reporter()
    console = Console(stderr=True)
    return BarReporter(console) if console.is_terminal else PlainReporter(sys.stderr)
