"""Drop views and casts that change nothing, merge chains of them, and compute before broadcasting rather than after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.dtypes import dtype
from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.sizes import same


def parts(whole: Sequence[int], split: Sequence[int]) -> list[list[int]] | None:
    """For each axis of `whole` the axes of `split` that it is split into, in order; None where some cross."""
    found: list[list[int]] = []
    axis = 0
    for size in whole:
        mine: list[int] = []
        made = 1
        while axis < len(split) and (not same(made, size) or (not mine and same(split[axis], 1))):
            made *= split[axis]
            mine.append(axis)
            axis += 1
        if not same(made, size):
            return None
        found.append(mine)
    if found:
        found[-1] += range(axis, len(split))
    return found if all(same(size, 1) for size in split[axis:]) else None


def _split_before_permuting(graph: Graph, node: Node, permute: Node) -> Value | None:
    """reshape(permute(reshape(x))) -> permute(reshape(x)), where the last one splits what the first one joined.

    Axes that are joined and split again may lie as they like; joined ones may not.
    """
    inner = permute.operand("x").node
    if inner is None or inner.op.name != "reshape":
        return None
    split = parts(permute.output.shape, node.output.shape)
    if split is None or not any(sum(not same(node.output.shape[a], 1) for a in group) > 1 for group in split):
        return None
    order = permute.attributes["axes_order"]
    before = [axis for place in range(len(order)) for axis in split[order.index(place)]]
    shape = tuple(node.output.shape[axis] for axis in before)
    x = graph.emit("reshape", [inner.operand("x")], before=node, source=node.source, shape=shape)
    order = tuple(before.index(axis) for axis in range(len(before)))
    return graph.emit("permute", [x], before=node, source=node.source, axes_order=order)


def _reshape(graph: Graph, node: Node, source: Value) -> Value | None:
    if same(source.shape, node.output.shape):
        return source
    inner = source.node
    if inner is not None and inner.op.name == "permute":
        return _split_before_permuting(graph, node, inner)
    if inner is not None and inner.op.name == "reshape":
        origin = inner.operand("x")
        if same(origin.shape, node.output.shape):
            return origin
        return graph.emit("reshape", [origin], before=node, source=node.source, shape=node.output.shape)
    return None


def _permute(graph: Graph, node: Node, source: Value) -> Value | None:
    order = node.attributes["axes_order"]
    if order == tuple(range(len(order))):
        return source
    inner = source.node
    if inner is not None and inner.op.name == "permute":
        first = inner.attributes["axes_order"]
        joined = tuple(first[axis] for axis in order)
        if joined == tuple(range(len(order))):
            return inner.operand("x")
        return graph.emit("permute", [inner.operand("x")], before=node, source=node.source, axes_order=joined)
    if inner is not None and inner.op.name == "flip":  # a copy, which then makes the order that is asked for
        permuted = graph.emit("permute", [inner.operand("x")], before=node, source=node.source, axes_order=order)
        axes = tuple(sorted(order.index(axis) for axis in inner.attributes["axes"]))
        return graph.emit("flip", [permuted], before=node, source=node.source, axes=axes)
    return None


def _same_type(_graph: Graph, node: Node, source: Value) -> Value | None:
    return source if same(source.type, node.output.type) else None


def _cast(graph: Graph, node: Node, source: Value) -> Value | None:
    """cast(cast(x)) -> cast(x), where the first one loses nothing: the second has all numbers of its operand."""
    inner = source.node
    if same(source.type, node.output.type) or inner is None or inner.op.name != "cast":
        return _same_type(graph, node, source)
    origin = inner.operand("x")
    narrow, wide = dtype(origin.dtype), dtype(source.dtype)
    if narrow.size >= wide.size or not np.can_cast(narrow.numpy, wide.numpy):
        return None
    if origin.dtype == node.output.dtype:
        return origin
    return graph.emit("cast", [origin], before=node, source=node.source, dtype=node.output.dtype)


def _slice(_graph: Graph, node: Node, source: Value) -> Value | None:
    return source if same(source.shape, node.output.shape) and same(node.attributes["start"], 0) else None


def _before_expanding(graph: Graph, node: Node) -> Value | None:
    """pointwise(expand(x), scalars) -> expand(pointwise(x, scalars)): fewer elements, and the broadcast stays free."""
    wide = [v for v in node.inputs if v is not None and v.scalar is None]
    maker = wide[0].node if len(wide) == 1 else None
    if node.op.family != "pointwise" or maker is None or maker.op.name != "expand":
        return None
    narrow = maker.operand("x")
    inputs = [narrow if v is wide[0] else v for v in node.inputs]
    if any(v is not None and v is not narrow and v.shape for v in inputs):
        return None
    small = graph.emit(node.op.name, inputs, before=node, source=node.source, **node.attributes)
    return graph.emit("expand", [small], before=node, source=node.source, shape=node.output.shape)


RULES: dict[str, Callable[[Graph, Node, Value], Value | None]] = {
    "reshape": _reshape,
    "permute": _permute,
    "expand": _same_type,
    "cast": _cast,
    "slice": _slice,
}


def run(graph: Graph) -> int:
    """Number of nodes dropped or joined with the one before them."""
    count = 0
    for node in graph.candidates():
        rule = RULES.get(node.op.name)
        new = rule(graph, node, node.operand("x")) if rule else _before_expanding(graph, node)
        # A reader of the elements may not take the encoded constant itself; `fold_constants` asks which readers do.
        if new is not None and new.type.encoding is None:
            graph.replace(node.output, new)
            graph.remove([node])
            count += 1
    return count


PASS = Pass("simplify_views", run)
