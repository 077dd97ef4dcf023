"""Who else used the processors while a round ran: /proc's counters, less what the run itself used. Knows no backend.

The counters tick a hundred times a second, so short rounds are judged by what little they can show.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARE = 0.05
"""A round is disturbed where others had so much of its time on some processor, or the hypervisor took it away."""
LEAST_S = 0.03
"""Less than three ticks are no evidence."""


@dataclass(frozen=True)
class Used:
    """Seconds of processor time: of a round, or of several."""

    wall: float = 0.0
    foreign: float = 0.0
    stolen: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether others had too much of it."""
        return self.foreign + self.stolen > max(SHARE * self.wall, LEAST_S)

    def __add__(self, other: Used) -> Used:
        return Used(self.wall + other.wall, self.foreign + other.foreign, self.stolen + other.stolen)


class Watch:
    """Watching at the counters from time to time.

    Args:
        own: gives the processes of the run, this one left out.
        proc: where the kernel's counters are.
    """

    def __init__(self, own: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._own = own
        self._proc = proc
        self._last = self._counters()

    def read(self) -> Used:
        """What was used since the last reading; nothing by others if the kernel does not count it."""
        before, self._last = self._last, self._counters()
        wall, busy, stolen, own = (now - then for now, then in zip(self._last, before, strict=True))
        return Used(wall, max(0.0, busy - own), max(0.0, stolen))

    def _counters(self) -> tuple[float, float, float, float]:
        """Wall time, busy time of all processors, stolen time, own time; all in seconds."""
        tick = os.sysconf("SC_CLK_TCK")
        first = self._text("stat").partition("\n")[0].split()[1:]
        user, nice, system, _idle, _wait, hard, soft, stolen = (int(ticks) for ticks in (*first, *"00000000")[:8])
        mine = os.times()
        own = mine.user + mine.system + sum(self._of(pid) for pid in self._own()) / tick
        return time.monotonic(), (user + nice + system + hard + soft) / tick, stolen / tick, own

    def _of(self, pid: int) -> int:
        """Ticks of one process, all its threads; 0 where it is gone."""
        fields = self._text(f"{pid}/stat").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError:
            return ""


def kept(disturbed: Sequence[bool], wanted: int) -> list[int]:
    """Which rounds to keep, in order: undisturbed ones first, disturbed ones where there are not enough."""
    ranked = sorted(range(len(disturbed)), key=lambda number: (disturbed[number], number))
    return sorted(ranked[:wanted])
