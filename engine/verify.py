"""Checks of a graph and of a memory plan, written apart from what produced them.

A finding is a `VerificationError`: a defect of the engine, never a mistake of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine import dtypes
from engine.errors import InternalError
from engine.ops import TABLE

if TYPE_CHECKING:
    from engine.bind import BoundPlan, Place
    from engine.ir import Graph, Value
    from engine.planner import Plan, Request


class VerificationError(InternalError):
    """The engine broke a rule of its own."""


def graph(g: Graph) -> None:
    """Order, arity, attributes and types of every node; outputs exist; names are unique.

    Raises:
        VerificationError: naming the first node at fault.
    """
    known: set[Value] = set(g.inputs)
    names: set[str] = set()
    for value in g.inputs:
        _name(names, value)
    for node in g.nodes:
        where = f"node {node!r}"
        if TABLE.get(node.op.name) is not node.op:
            raise VerificationError(f"{where}: not an op of the table")
        for position, operand in enumerate(node.inputs):
            if operand is None:
                if not node.op.inputs[position].endswith("?"):
                    raise VerificationError(f"{where}: required input {position} is absent")
            elif not operand.is_constant and operand not in known:
                raise VerificationError(f"{where}: reads %{operand.name} before it is made")
        try:
            node.op.check_arity(len(node.inputs))
            complete = node.op.complete(node.attributes)
            types = node.op.infer([None if v is None else v.type for v in node.inputs], node.attributes)
        except ValueError as error:
            raise VerificationError(f"{where}: {error}") from error
        if dict(node.attributes) != complete:
            raise VerificationError(f"{where}: attributes are not complete")
        if [v.type for v in node.outputs] != list(types):
            raise VerificationError(f"{where}: types say {types}")
        for value in node.outputs:
            if value.node is not node:
                raise VerificationError(f"{where}: %{value.name} belongs to another node")
            _name(names, value)
            known.add(value)
    for output in g.outputs:
        if not output.is_constant and output not in known:
            raise VerificationError(f"output %{output.name} is never made")


def _name(names: set[str], value: Value) -> None:
    if value.name in names:
        raise VerificationError(f"two values are called %{value.name}")
    names.add(value.name)


def plan(requests: Sequence[Request], made: Plan, alignment: int = 64) -> None:
    """No two buffers that are alive at the same step overlap; all are aligned and inside of the arena.

    Raises:
        VerificationError: naming the two buffers.
    """
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


def order(made: BoundPlan, threads: int) -> None:
    """No step may run beside one that it conflicts with, byte by byte: a simulation of what each byte saw last.

    Takes memory and time of the order of all bytes touched: for tests.

    Raises:
        VerificationError: naming the two steps.
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

    for number, step in enumerate(made.steps):
        if not 0 <= step.overlap <= number:
            raise VerificationError(f"step {number}: overlaps with {step.overlap} steps before it")
        touched: list[tuple[tuple[str, int], np.ndarray, bool]] = []
        for position, place in enumerate(step.operands):
            if place is not None:
                kind, index = place.storage
                memory = (kind, 0 if kind == "arena" else index)
                touched.append((memory, bytes_of(place), position >= step.n_inputs))
        if step.scratch_bytes or step.shared_bytes:
            where = step.scratch_offset + np.arange(-step.shared_bytes, step.scratch_bytes * threads)
            touched.append((("arena", 0), locate(("arena", 0), where), True))
        for memory, where, writes in touched:
            latest = int(memories[memory][: 2 if writes else 1, where].max(initial=-1))
            if latest >= number - step.overlap:
                raise VerificationError(f"step {number} may run beside step {latest}, which touches the same bytes")
        for memory, where, writes in touched:
            memories[memory][0 if writes else 1, where] = number
