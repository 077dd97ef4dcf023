"""What a run tells while it goes on. The reporters that show it to people are in `suites.harness.present.progress`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from suites.harness.record.schema import Summary


class Reporter:
    """Says nothing; the base of those that do. A unit is one worker process."""

    def start(self, units: int, text: str, done: int = 0) -> None:
        """`units` of work follow, called `text`; an earlier run has done `done` of them."""

    def doing(self, text: str) -> None:
        """What happens right now."""

    def advance(self, units: int = 1) -> None:
        """So much of it is done."""

    def skip(self, units: int) -> None:
        """So much of it was done by an earlier run, which says nothing of the pace."""

    def rows(self, title: str, labels: Sequence[str]) -> None:
        """These take part in what follows, each with a row of its own under `title`."""

    def row(self, label: str, state: str, latency: float | None = None) -> None:
        """What `label` does now, or what became of it; `latency` is the median of its calls so far, in seconds."""

    def finished(self, case: str, number: int, cases: int, summaries: Sequence[Summary]) -> None:
        """A case is done, the `number`-th of `cases`; its rows are `summaries`."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
