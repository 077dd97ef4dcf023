"""Merge nodes with the same op, inputs and attributes into one."""

from __future__ import annotations

from collections.abc import Hashable

from engine.graph import Graph, Node, Value, identity
from engine.passes.base import Pass

COMPARED_BYTES = 16 << 10  # positions and masks of a few thousand tokens, made anew in each layer; no weights


def run(graph: Graph) -> int:
    """Number of nodes merged into an earlier one."""
    seen: dict[Hashable, Node] = {}
    new: dict[Value, Value] = {}
    merged: list[Node] = []
    for node in graph.candidates():
        inputs = [v if v is None else new.get(v, v) for v in node.inputs]
        key = (node.op.name, tuple(map(_key, inputs)), tuple((k, repr(v)) for k, v in node.attributes.items()))
        first = seen.setdefault(key, node)
        if first is not node:
            new |= zip(node.outputs, first.outputs, strict=True)
            merged.append(node)
    graph.remove(merged)
    graph.replace_all(new)
    return len(merged)


def _key(value: Value | None) -> Hashable:
    """Small constants are equal by content, large ones by the identity of their form, other values by their own."""
    if value is None:
        return None
    if value.form is None:
        return id(value)
    if not value.is_plain or value.type.nbytes > COMPARED_BYTES:
        return (value.type, value.precision, identity(value.form))
    return (value.type, value.precision, value.elements.tobytes())


PASS = Pass("common_subexpressions", run)
