"""Checks the order of a bound plan; shares no code with the binder.

A violated rule is a `VerificationError`: a defect of the engine, never a mistake of the user.
"""

from __future__ import annotations

import numpy as np

from engine import dtypes
from engine.errors import VerificationError
from engine.targets.plan import BoundPlan, Place


def order(made: BoundPlan, lanes: int) -> None:
    """Check that no two conflicting steps may run at the same time; VerificationError names two that may.

    Takes memory and time in proportion to the bytes that steps write. Memory that no step writes is not checked.
    """
    memories: dict[tuple[str, int], np.ndarray] = {}

    def bytes_of(place: Place) -> np.ndarray:
        """Positions of the bytes of `place` in its memory."""
        kind, number = place.storage
        size = dtypes.dtype(place.dtype).size
        index = np.asarray(place.layout.offset, np.int64)
        for extent, stride in zip(place.layout.shape, place.layout.strides, strict=True):
            index = index[..., None] + np.arange(extent) * stride
        where = (index.reshape(-1, 1) * size + np.arange(size)).ravel()
        if kind == "arena":
            where, number = where + made.arena_offsets[number], 0
        return locate((kind, number), where)

    def locate(memory: tuple[str, int], where: np.ndarray) -> np.ndarray:
        seen = memories.get(memory)
        length = int(where.max(initial=-1)) + 1
        if seen is None or seen.shape[1] < length:
            grown = np.full((2, length), -1, np.int64)
            if seen is not None:
                grown[:, : seen.shape[1]] = seen
            memories[memory] = grown
        return where

    written = {p.storage for step in made.steps for p in step.operands[step.n_inputs :] if p is not None}
    kinds = {kind for kind, _number in written}

    def is_written(place: Place) -> bool:
        return place.storage in written or (place.storage.kind == "arena" and "arena" in kinds)

    for number, step in enumerate(made.steps):
        if not 0 <= step.overlap <= number:
            raise VerificationError(f"step {number}: overlaps with {step.overlap} steps before it")
        touched: list[tuple[tuple[str, int], np.ndarray, bool]] = []
        for position, place in enumerate(step.operands):
            if place is not None and is_written(place):
                kind, index = place.storage
                memory = (kind, 0 if kind == "arena" else index)
                touched.append((memory, bytes_of(place), position >= step.n_inputs))
        if step.planned.scratch_bytes or step.planned.shared_bytes:
            where = step.scratch_offset + np.arange(-step.planned.shared_bytes, step.planned.scratch_bytes * lanes)
            touched.append((("arena", 0), locate(("arena", 0), where), True))
        for memory, where, writes in touched:
            latest = int(memories[memory][: 2 if writes else 1, where].max(initial=-1))
            if latest >= number - step.overlap:
                raise VerificationError(f"step {number} may run beside step {latest}, which accesses the same bytes")
        for memory, where, writes in touched:
            memories[memory][0 if writes else 1, where] = number
