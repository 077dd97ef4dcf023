"""Compute a thing once: nodes with the same op, inputs and attributes become one."""

from __future__ import annotations

from collections.abc import Hashable

from engine.ir import Graph, Node, Value


def run(graph: Graph) -> int:
    """Number of nodes merged into an earlier one."""
    seen: dict[Hashable, Node] = {}
    new: dict[Value, Value] = {}
    merged: list[Node] = []
    for node in graph.nodes:
        node.inputs = [v if v is None else new.get(v, v) for v in node.inputs]
        key = (node.op.name, tuple(map(_key, node.inputs)), tuple((k, repr(v)) for k, v in node.attributes.items()))
        first = seen.setdefault(key, node)
        if first is not node:
            new |= zip(node.outputs, first.outputs, strict=True)
            merged.append(node)
    graph.outputs = [new.get(v, v) for v in graph.outputs]
    graph.remove(merged)
    return len(merged)


def _key(value: Value | None) -> Hashable:
    """Small constants are equal by content, everything else by identity."""
    if value is None:
        return None
    data = value.data if value.is_constant and value.type.size == 1 else None
    return id(value) if data is None else (value.type, data.tobytes())
