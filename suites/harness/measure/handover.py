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
    """Seconds from the first processor that this process may use to the nearest and the farthest other, one way."""

    nearest: float
    farthest: float


def measure() -> Handover | None:
    """Measure it now; None where this process may use one processor, or cannot choose where a thread runs."""
    from engine import targets

    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    others = usable[1 :: max(1, (len(usable) - 1) // MOST)]
    pairs = (targets.get("cpu").instruments.measure_handover(usable[0], other) for other in others)
    known = [seconds for seconds in pairs if seconds is not None]
    return Handover(min(known), max(known)) if known else None
