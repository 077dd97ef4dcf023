"""Checks a memory plan; shares no code with the strategies that make plans.

A finding is a `VerificationError`: a defect of the engine, never a mistake of the user.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import VerificationError
from engine.planner import MemoryPlan, Request


def plan(requests: Sequence[Request], made: MemoryPlan, alignment: int = 64) -> None:
    """No two buffers alive at the same step overlap, all are aligned and inside; or a VerificationError names two."""
    for index, request in enumerate(requests):
        start = made.offsets[index]
        if start % alignment or start < 0 or start + request.nbytes > made.arena_bytes:
            raise VerificationError(f"buffer {index} at {start} (+{request.nbytes}) does not fit {made.arena_bytes}")
        for other in range(index):
            rival = requests[other]
            if request.last < rival.first or rival.last < request.first:
                continue
            apart = start + request.nbytes <= made.offsets[other] or made.offsets[other] + rival.nbytes <= start
            if not apart and request.nbytes and rival.nbytes:
                raise VerificationError(f"buffers {other} and {index} are alive at once and overlap")
