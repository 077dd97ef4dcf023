"""Merge linears that read the same value into one (query, key and value; gate and up), and slice the result."""

from __future__ import annotations

from collections.abc import Hashable

from engine.graph import Graph, Node, can_join, join_sources
from engine.passes.base import Pass


def _key(node: Node) -> Hashable | None:
    """Linears with the same key can be one; None where a linear cannot be merged at all."""
    weight, bias = node.operand("weight"), node["bias"]
    if not weight.is_constant or node["residual"] is not None or not can_join([weight.type], _rows(node)):
        return None
    if bias is not None and not bias.is_constant:
        return None
    return (
        id(node["x"]),
        weight.type._replace(shape=()),
        weight.precision,
        bias is None,
        tuple(node.attributes.items()),
    )


def _rows(node: Node) -> int:
    """The axis of a linear's weight that has an element for each feature of the result."""
    return 0 if node.attributes["transpose_weight"] else 1


def _merge(graph: Graph, nodes: list[Node]) -> None:
    """One linear over the concatenated weights in place of `nodes`."""
    first = nodes[0]
    weight = graph.joined([n.operand("weight") for n in nodes], _rows(first))
    biases = [n["bias"] for n in nodes]  # all of them or none: the key says so
    bias = graph.joined([b for b in biases if b is not None], 0) if biases[0] is not None else None
    merged = graph.emit_again(
        first, {"weight": weight, "bias": bias}, source=join_sources([node.source for node in nodes])
    )
    axis, start = len(merged.shape) - 1, 0
    for node in nodes:
        stop = start + node.output.shape[-1]
        part = graph.emit(
            "slice", [merged], before=first, source=node.source, axis=axis, start=start, stop=stop, step=1
        )
        graph.replace(node.output, part)
        start = stop
    graph.remove(nodes)


def run(graph: Graph) -> int:
    """Number of linears merged into another."""
    groups: dict[Hashable, list[Node]] = {}
    for node in graph.candidates():
        key = _key(node) if node.op.name == "linear" else None
        if key is not None:
            groups.setdefault(key, []).append(node)
    count = 0
    for nodes in groups.values():
        if len(nodes) > 1:
            _merge(graph, nodes)
            count += len(nodes) - 1
    return count


PASS = Pass(
    "merge_linear",
    run,
    before={
        "fuse_epilogue": "a linear with an epilogue cannot be merged",
    },
)
