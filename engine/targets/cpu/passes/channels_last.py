"""Use the channels-last layout for convolutions, pooling and the ops between them, with permutes only at the borders.

Ops that compute element by element, reduce or join read a value under its permute, which costs nothing. So a permute
stays only where another op needs the order of the model; there the binder makes a copy, which the report counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.dtypes import dtype
from engine.graph import Graph, Node, Value, can_reshape
from engine.passes.base import Pass
from engine.sizes import same

_RANKS = (3, 4, 5)  # of images with one to three spatial axes
_IMAGES = ("conv", "conv_transpose", "concat", "max_pool", "avg_pool", "group_norm")


def _to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _moved(axis: int, rank: int) -> int:
    """An axis of [N, C, *S] in [N, *S, C]."""
    return axis and (axis - 1 or rank - 1)


def _beneath(value: Value) -> Value | None:
    """What `value` is a view of, if that has its channels last.

    Of rank 3 many a transposed matrix looks so: there a convolution, a pool, a join or an op by elements made it.
    """
    node, rank = value.node, len(value.shape)
    if node is None or node.decodes or node.op.name != "permute" or rank not in _RANKS:
        return None
    if node.attributes["axes_order"] != _to_first(rank):
        return None
    below = node.operand("x")
    maker = below.node.op if below.node is not None else None
    if rank == 3 and (maker is None or not (maker.family == "pointwise" or maker.name in _IMAGES)):
        return None
    return below


def _permuted(graph: Graph, value: Value | None, before: Node) -> Value | None:
    """`value` [N, C, *S], or what is broadcast to the size of `before`, as [N, *S, C]; None stays None."""
    if value is None:
        return None
    rank = len(before.output.shape)
    if len(value.shape) < rank:
        shape = (*[1] * (rank - len(value.shape)), *value.shape)
        value = graph.emit("reshape", [value], before=before, source=before.source, shape=shape)
    found = _beneath(value)
    return found or graph.emit("permute", [value], before=before, source=before.source, axes_order=_to_last(rank))


def _back(graph: Graph, node: Node, value: Value) -> Value:
    order = _to_first(len(value.shape))
    return graph.emit("permute", [value], before=node, source=node.source, axes_order=order)


def _conv(graph: Graph, node: Node) -> Value | None:
    """By a constant weight, which is packed; a 1 x 1 kernel of all channels is a linear over them."""
    x, weight, a = node.operand("x"), node.operand("weight"), node.attributes
    if a["channels_last"] or not weight.is_constant:
        return None
    images = {"x": _permuted(graph, x, node), "residual": _permuted(graph, node["residual"], node)}
    in_place = {*weight.shape[2:], *a["stride"]} == {1} and not any((*a["low"], *a["high"]))
    if in_place and a["groups"] == 1 and len(x.shape) > 3 and can_reshape(weight.type, weight.shape[:2]):
        matrix = graph.reshaped(weight, weight.shape[:2])
        inputs = {**images, "weight": matrix, "bias": node["bias"]}
        how = {"transpose_weight": True, "activation": a["activation"], "compute": a["compute"]}
        return _back(graph, node, graph.emit("linear", inputs, before=node, source=node.source, **how))
    return _back(graph, node, graph.emit_again(node, images, channels_last=True))


def _conv_transpose(graph: Graph, node: Node) -> Value | None:
    """By a constant weight, which is packed."""
    x, weight, a = node.operand("x"), node.operand("weight"), node.attributes
    if a["channels_last"] or not weight.is_constant:
        return None
    images = {"x": _permuted(graph, x, node), "residual": _permuted(graph, node["residual"], node)}
    return _back(graph, node, graph.emit_again(node, images, channels_last=True))


def _pool(graph: Graph, node: Node) -> Value | None:
    """Pool or norm beside other images: alone, two copies would take longer than it does with its channels first."""
    if node.attributes["channels_last"]:
        return None
    if _beneath(node.operand("x")) is None and not _is_read_by_convolution(graph, node):
        return None
    images = _permuted(graph, node.operand("x"), node)
    return _back(graph, node, graph.emit_again(node, {"x": images}, channels_last=True))


def _pointwise(graph: Graph, node: Node) -> Value | None:
    """Where all images of the result's size have their channels last; operands that are broadcast are permuted.

    A cast to a wider type stays behind the permute unless a convolution reads it: a copy moves narrow elements.
    """
    shape = node.output.shape
    operands = [v for v in node.inputs if v is not None and v.shape]
    images = [v for v in operands if same(v.shape, shape)]
    if not images or any(_beneath(v) is None for v in images):
        return None
    widens = node.op.name == "cast" and dtype(images[0].dtype).size < dtype(node.output.dtype).size
    if widens and not _is_read_by_convolution(graph, node):
        return None
    inputs = [v if v is None or not v.shape else _permuted(graph, v, node) for v in node.inputs]
    return _back(graph, node, graph.emit(node.op.name, inputs, before=node, source=node.source, **node.attributes))


def _reduce(graph: Graph, node: Node) -> Value | None:
    """Over all spatial axes, or with the reduced axes kept, so that the result can be permuted back."""
    x, axes = node.operand("x"), node.attributes["axes"]
    beneath, rank = _beneath(x), len(x.shape)
    if beneath is None or not (node.attributes["keepdims"] or axes == tuple(range(2, rank))):
        return None
    reduced = graph.emit_again(node, {"x": beneath}, axes=tuple(sorted(_moved(axis, rank) for axis in axes)))
    return _back(graph, node, reduced) if node.attributes["keepdims"] else reduced


def _concat(graph: Graph, node: Node) -> Value | None:
    parts = [None if v is None else _beneath(v) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    axis = _moved(node.attributes["axis"], len(node.output.shape))
    return _back(graph, node, graph.emit("concat", parts, before=node, source=node.source, axis=axis))


def _along_an_axis(graph: Graph, node: Node) -> Value | None:
    """One whose other inputs say what becomes of the elements of an axis."""
    beneath = _beneath(node.operand("x"))
    if beneath is None:
        return None
    axis = _moved(node.attributes["axis"], len(beneath.shape))
    return _back(graph, node, graph.emit_again(node, {"x": beneath}, axis=axis))


def _pad(graph: Graph, node: Node) -> Value | None:
    beneath = _beneath(node.operand("x"))
    if beneath is None:
        return None
    order = _to_last(len(beneath.shape))
    how: dict[str, Any] = {end: tuple(node.attributes[end][axis] for axis in order) for end in ("low", "high")}
    return _back(graph, node, graph.emit_again(node, {"x": beneath}, **how))


def _repeats(node: Node) -> tuple[Value, list[int]] | None:
    """What `node` repeats the elements of, and how often along each axis: nearest neighbours, as three views say it.

    [.., n, ..] is seen as [.., n, 1, ..], expanded to [.., n, r, ..] and seen as [.., n * r, ..].
    """
    expand = node.operand("x").node
    apart = expand.operand("x").node if expand is not None and expand.op.name == "expand" else None
    if expand is None or apart is None or apart.decodes or apart.op.name != "reshape":
        return None
    x, narrow, wide = apart.operand("x"), apart.output.shape, expand.output.shape
    rank, times, at = len(x.shape), list[int](), 0
    if len(wide) != len(narrow) or len(node.output.shape) != rank:
        return None
    for size, result in zip(x.shape, node.output.shape, strict=True):
        if at == len(wide) or not same(narrow[at : at + 1], (size,)) or not same(wide[at : at + 1], (size,)):
            return None
        repeated = not same((size,), (result,))
        if repeated and not (same(narrow[at + 1 : at + 2], (1,)) and same((size * wide[at + 1],), (result,))):
            return None
        times.append(wide[at + 1] if repeated else 1)
        at += 1 + repeated
    return (x, times) if at == len(wide) else None


def _repeat(graph: Graph, node: Node) -> Value | None:
    """Where only places are repeated, not channels, so that runs of channels stay whole."""
    found = _repeats(node)
    beneath = _beneath(found[0]) if found else None
    if found is None or beneath is None or found[1][1] != 1:
        return None
    narrow, wide = list[int](), list[int]()
    for axis in _to_last(len(beneath.shape)):
        size, times = found[0].shape[axis], found[1][axis]
        narrow += [size] if times == 1 else [size, 1]
        wide += [size] if times == 1 else [size, times]
    shape = tuple(node.output.shape[axis] for axis in _to_last(len(beneath.shape)))
    y = graph.emit("reshape", [beneath], before=node, source=node.source, shape=tuple(narrow))
    y = graph.emit("expand", [y], before=node, source=node.source, shape=tuple(wide))
    return _back(graph, node, graph.emit("reshape", [y], before=node, source=node.source, shape=shape))


def _is_read_by_convolution(graph: Graph, node: Node) -> bool:
    """True if a convolution reads the result of `node`, directly or through ops that this pass rewrites."""
    requested: set[Value] = set()
    for other in reversed(graph.nodes):
        if other is node:
            break
        name = other.op.name
        if name in ("conv", "conv_transpose"):
            requested |= {other.operand("x")} if other.operand("weight").is_constant else set()
        elif other.output in requested and (name in RULES or other.op.family == "pointwise"):
            requested |= {value for value in other.inputs if value is not None}
    return node.output in requested


RULES: dict[str, Callable[[Graph, Node], Value | None]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _pool,
    "avg_pool": _pool,
    "group_norm": _pool,
    "concat": _concat,
    "resample": _along_an_axis,
    "index_select": _along_an_axis,
    "pad": _pad,
    "reshape": _repeat,
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduce),
}


def run(graph: Graph) -> int:
    """Number of nodes that now read and make images with their channels last."""
    count = 0
    for node in graph.candidates():
        rule = RULES.get(node.op.name, _pointwise if node.op.family == "pointwise" else None)
        new = rule(graph, node) if rule else None
        if new is not None:
            graph.replace(node.output, new)
            graph.remove([node])
            count += 1
    # A permute that nobody reads any longer would pass for a reader of what it permutes, and keep chains apart.
    read = {*graph.users(), *graph.outputs}
    graph.remove([n for n in graph.nodes if n.op.name == "permute" and n.output not in read])
    return count


PASS = Pass(
    "channels_last",
    run,
    after={
        "fuse_epilogue": "convolutions then have their bias, residual and activation",
    },
    before={
        "fuse_expand_depthwise": "it looks for a 1 x 1 convolution that has become a linear",
        "fuse_pointwise": "chains then run on images as they lie in memory",
        "dead_code": "permutes that nothing reads have to go",
    },
    target="cpu",
)
