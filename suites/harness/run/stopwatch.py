"""What the wall time of a run was spent on. Owns a clock that no result is measured with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Stopwatch:
    """Adds up seconds by phase.

    Attributes:
        seconds: phase -> seconds so far. Phases do not overlap.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Add the time that the block takes to `phase`, also where it raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(phase, time.monotonic() - began)

    def add(self, phase: str, seconds: float) -> None:
        """Add `seconds` to `phase`."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def divide(self, seconds: float, work: Mapping[str, float]) -> None:
        """Add `seconds`, in which processes worked at the same time, to phases in proportion to their work."""
        total = sum(work.values())
        for phase, share in work.items():
            self.add(phase, seconds * share / total if total else 0.0)

    def read(self) -> dict[str, float]:
        """Phase -> seconds, the largest first, then `other`: what is left of the time since the stopwatch was made."""
        passed = time.monotonic() - self._began
        ordered = dict(sorted(self.seconds.items(), key=lambda one: -one[1]))
        return ordered | {"other": max(0.0, passed - sum(ordered.values()))}
