"""Decides which steps of a bound plan may run at the same time: neither writes bytes that the other uses."""

from __future__ import annotations

from collections.abc import Sequence

from engine import dtypes, planner
from engine.targets.plan import Step

Access = tuple[tuple[str, int], int, int, bool]
"""A memory, the bytes ``[start, stop)`` of it that a step reads or writes, and whether it writes them."""


def accesses(step: Step, arena_offsets: Sequence[int], lanes: int) -> list[Access]:
    """Memory that `step` accesses, but for inputs and constants, which no step writes."""
    found: list[Access] = []
    for position, place in enumerate(step.operands):
        if place is None or place.storage.kind in ("input", "constant") or not (span := place.layout.span):
            continue
        kind, number = place.storage
        size = dtypes.dtype(place.dtype).size
        start = place.layout.offset * size
        if kind == "arena":  # the arena is one memory: its buffers may share bytes
            start, number = start + arena_offsets[number], 0
        found.append(((kind, number), start, start + span * size, position >= step.n_inputs))
    if nbytes := step.working_memory(lanes):
        start = step.scratch_offset - planner.aligned(step.planned.shared_bytes)
        found.append((("arena", 0), start, start + nbytes, True))
    return found


MOST_OVERLAP = 64
"""Threads are seldom further apart, and binding very many independent steps must not take quadratic time."""


def allow_overlap(steps: Sequence[Step], arena_offsets: Sequence[int], lanes: int) -> None:
    """Set the `overlap` of each step: how many steps directly before it do not conflict with it, at most
    `MOST_OVERLAP`.

    Two steps conflict if one writes bytes that the other reads or writes.
    """
    touched: list[list[Access]] = []
    for number, step in enumerate(steps):
        mine = accesses(step, arena_offsets, lanes)
        step.overlap = 0
        most = min(number, MOST_OVERLAP)
        while step.overlap < most and not _conflict(mine, touched[number - 1 - step.overlap]):
            step.overlap += 1
        touched.append(mine)


def _conflict(some: Sequence[Access], others: Sequence[Access]) -> bool:
    for memory, start, stop, writes in some:
        for other, begin, end, is_written in others:
            if (writes or is_written) and memory == other and start < end and begin < stop:
                return True
    return False
