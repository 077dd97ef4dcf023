"""Lay images out with their channels last where convolutions and pooling read them, and turn them only at the borders.

A value that lies so is seen by everybody else through a permute, which costs nothing; who computes element by element,
reduces or joins such values does it on what lies beneath, so that a permute stays only where another op needs the
order of the model. There the binder makes a copy, which the report counts.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.ir import Graph, Node, Value

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_AXIS = {0: 0, 1: 3, 2: 1, 3: 2}  # of [N, C, H, W] -> of [N, H, W, C]


def _beneath(value: Value) -> Value | None:
    """What `value` is a view of, if that has its channels last."""
    node = value.node
    is_turned = node is not None and node.op.name == "permute" and node.attributes["axes_order"] == _TO_FIRST
    return node.input(0) if node is not None and is_turned else None


def _turned(graph: Graph, value: Value | None, before: Node) -> Value | None:
    """`value` [N, C, H, W], or what is broadcast to that, as [N, H, W, C]; None stays None."""
    if value is None:
        return None
    if len(value.shape) < 4:
        shape = (*[1] * (4 - len(value.shape)), *value.shape)
        value = graph.emit("reshape", [value], before=before, source=before.source, shape=shape)
    found = _beneath(value)
    return found or graph.emit("permute", [value], before=before, source=before.source, axes_order=_TO_LAST)


def _back(graph: Graph, node: Node, value: Value) -> Value:
    return graph.emit("permute", [value], before=node, source=node.source, axes_order=_TO_FIRST)


def _conv(graph: Graph, node: Node) -> Value | None:
    """By a constant weight, which is packed; a 1 x 1 kernel of all channels is a linear over them."""
    x, weight, a = node.input(0), node.input(1), node.attributes
    if a["channels_last"] or len(x.shape) != 4 or weight.data is None:
        return None
    inputs = [_turned(graph, x, node), weight, node.inputs[2], _turned(graph, node.inputs[3], node)]
    in_place = weight.shape[2:] == (1, 1) and a["stride"] == (1, 1) and not any((*a["low"], *a["high"]))
    if in_place and a["groups"] == 1:
        inputs[1] = graph.constant(weight.data.reshape(weight.shape[:2]), weight.name)
        how = {"transpose_weight": True, "activation": a["activation"]}
        return _back(graph, node, graph.emit("linear", inputs, before=node, source=node.source, **how))
    how = {**a, "channels_last": True}
    return _back(graph, node, graph.emit("conv", inputs, before=node, source=node.source, **how))


def _pool(graph: Graph, node: Node) -> Value | None:
    x = node.input(0)
    if node.attributes["channels_last"] or len(x.shape) != 4:
        return None
    how = {**node.attributes, "channels_last": True}
    return _back(
        graph, node, graph.emit(node.op.name, [_turned(graph, x, node)], before=node, source=node.source, **how)
    )


def _pointwise(graph: Graph, node: Node) -> Value | None:
    """Where all images of the result's size lie with their channels last; what is broadcast to it is turned freely."""
    shape = node.output.shape
    operands = [v for v in node.inputs if v is not None and v.shape]
    images = [v for v in operands if v.shape == shape]
    if not images or any(_beneath(v) is None for v in images):
        return None
    inputs = [v if v is None or not v.shape else _turned(graph, v, node) for v in node.inputs]
    return _back(graph, node, graph.emit(node.op.name, inputs, before=node, source=node.source, **node.attributes))


def _reduce(graph: Graph, node: Node) -> Value | None:
    """Over rows and columns, or with the reduced axes kept, so that the result has an order to be turned back to."""
    beneath, axes = _beneath(node.input(0)), node.attributes["axes"]
    if beneath is None or not (node.attributes["keepdims"] or axes == (2, 3)):
        return None
    how = {**node.attributes, "axes": tuple(sorted(_AXIS[axis] for axis in axes))}
    reduced = graph.emit(node.op.name, [beneath], before=node, source=node.source, **how)
    return _back(graph, node, reduced) if node.attributes["keepdims"] else reduced


def _concat(graph: Graph, node: Node) -> Value | None:
    parts = [None if v is None else _beneath(v) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    axis = _AXIS[node.attributes["axis"]]
    return _back(graph, node, graph.emit("concat", parts, before=node, source=node.source, axis=axis))


RULES: dict[str, Callable[[Graph, Node], Value | None]] = {
    "conv": _conv,
    "max_pool": _pool,
    "avg_pool": _pool,
    "concat": _concat,
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduce),
}


def run(graph: Graph) -> int:
    """Number of nodes that now read and make images with their channels last."""
    count = 0
    for node in list(graph.nodes):
        rule = RULES.get(node.op.name, _pointwise if node.op.family == "pointwise" else None)
        new = rule(graph, node) if rule else None
        if new is not None:
            graph.replace(node.output, new)
            graph.remove([node])
            count += 1
    # A permute that nobody reads any longer would pass for a reader of what it turns, and keep chains apart.
    read = {*graph.users(), *graph.outputs}
    graph.remove([n for n in graph.nodes if n.op.name == "permute" and n.output not in read])
    return count
