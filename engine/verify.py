"""Checks of a graph and of a memory plan, written apart from what produced them.

Raises AssertionError-like `VerificationError`: a finding here is a defect of the engine, never of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.ops import TABLE

if TYPE_CHECKING:
    from engine.ir import Graph, Value
    from engine.planner import Plan, Request


class VerificationError(EngineError):
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
        node.op.check_arity(len(node.inputs))
        if dict(node.attributes) != node.op.complete(node.attributes):
            raise VerificationError(f"{where}: attributes are not complete")
        types = node.op.infer([None if v is None else v.type for v in node.inputs], node.attributes)
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
