"""How far the processors are from each other: the time from a write on one until another reads it.

It is several times as long where they share no cache, which changes what two threads gain. On a virtual machine it may
change during a run. The loop is C's (`csrc/measure.c`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

MOST = 16
"""Processors that the first one is paired with at most, spread over all; a pair takes 2 ms."""


@dataclass(frozen=True)
class Handover:
    """Seconds from the first processor that this process may use to others, one way.

    Attributes:
        nearest: to the nearest of the others.
        farthest: to the farthest.
    """

    nearest: float
    farthest: float


def measure() -> Handover | None:
    """Measure it now; None where this process may use one processor, or cannot choose where a thread runs."""
    from engine import targets

    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    others = usable[1:]
    step = max(1, len(others) // MOST)
    cpu = targets.get("cpu")
    pairs = (cpu.instruments.measure_handover(usable[0], other) for other in others[::step])
    found = [seconds for seconds in pairs if seconds is not None]
    return Handover(min(found), max(found)) if found else None
