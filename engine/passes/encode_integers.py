"""Store a weight that is computed from a constant of integers as these integers and their scales.

Models that are quantised already compute ``x @ (cast(w) * scale)``, or ``(x @ cast(w)) * scale`` with a scale for each
channel of the result. The pass makes both ``x @ W``, where W is an encoded constant that has `w` and `scale` as its
components. Tables of embeddings are stored alike. Zero points that are subtracted must be 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine import dtypes, sizes
from engine.encodings import INT8_CHANNEL, INT8_TENSOR
from engine.graph import VIEWS, Filled, Graph, Node, Value, spread_scale, stem_of
from engine.ops import TensorType
from engine.passes.base import Pass

_FLOATS = ("float32", "bfloat16", "float16")
_BYTES = ("int8", "uint8")
_WEIGHTED = ("conv_transpose", "index", "index_select", "layer_norm", "rms_norm", "group_norm")
"""Ops whose constant operands are weights, beside those that read encoded ones."""


# --- constants under views and casts ---------------------------------------------------------------------------------


class _Folded(NamedTuple):
    """A value as a constant: views of a constant with at most one change of its type among them."""

    constant: Value
    is_cast: bool


def _fold(graph: Graph, value: Value) -> _Folded | None:
    """`value` without views and without a cast, which the caller applies; None if it is made of anything else."""
    node = value.node
    if value.is_constant or node is None:
        return _Folded(value, is_cast=False) if value.is_plain else None
    if node.op.name != "cast" and node.op.name not in VIEWS:
        return None
    below = _fold(graph, node.operand("x"))
    if below is None or not _is_fixed(node):
        return None
    if node.op.name == "cast":
        same = node.output.dtype == node.operand("x").dtype
        return below if same else None if below.is_cast else _Folded(below.constant, is_cast=True)
    view = VIEWS[node.op.name](graph, below.constant, node.attributes)
    return None if view is None else _Folded(view, below.is_cast)


def _is_fixed(node: Node) -> bool:
    return sizes.is_fixed(list(node.attributes.values()))


class _Scale(NamedTuple):
    """Scales of a tensor: a float32 constant of rank 1, and the axis whose indices have a scale each; None: no axis."""

    constant: Value
    axis: int | None


def _scale(graph: Graph, value: Value, shape: tuple[int, ...]) -> _Scale | None:
    """`value`, by which a tensor of `shape` is multiplied, as scales; None if it is no finite constant of that kind."""
    found = _fold(graph, value)
    if found is None or found.constant.dtype not in _FLOATS or not _is_narrow(value, shape):
        return None
    scale = found.constant
    if found.is_cast or scale.dtype != "float32":  # rounded as in the model; float32 has every narrower number
        elements = scale.elements.astype(dtypes.dtype(value.dtype).numpy).astype(np.float32)
        scale = graph.constant(elements, scale.name)
    if not np.isfinite(scale.elements).all():
        return None
    axes = [axis - len(value.shape) + len(shape) for axis, size in enumerate(value.shape) if size != 1]
    return _Scale(graph.reshaped(scale, (scale.type.size,)), axes[0] if axes else None)


def _is_narrow(value: Value, shape: tuple[int, ...]) -> bool:
    """True if `value` has at most one axis that is longer than 1, and does not change `shape` by broadcasting."""
    return (
        sizes.is_fixed(value.shape)
        and len(value.shape) <= len(shape)
        and sum(size != 1 for size in value.shape) <= 1
        and all(sizes.same(a, b) or a == 1 for a, b in zip(value.shape[::-1], shape[::-1], strict=False))
    )


# --- weights ---------------------------------------------------------------------------------------------------------


def _weight(graph: Graph, value: Value) -> Value | None:
    """`value` as an encoded constant, with one scale of 1 if nothing multiplies the integers; None if it is none."""
    node = value.node
    if node is None or value.is_constant or value.dtype not in _FLOATS:
        return None
    match node.op.name:
        case "cast":
            below = node.operand("x")
            return _weight(graph, below) if below.dtype == value.dtype else _integers(graph, value)
        case "sub":
            weight = _weight(graph, node.operand("a"))
            fits = weight is not None and weight.shape == value.shape
            return weight if fits and _is_zero(graph, node.operand("b"), value.shape) else None
        case "mul":
            for one, other in (("a", "b"), ("b", "a")):
                weight = _weight(graph, node.operand(one))
                if weight is not None and _is_unit(weight) and weight.shape == value.shape:
                    return _scaled(graph, weight, node.operand(other))
            return None
        case op if op in VIEWS and _is_fixed(node):
            weight = _weight(graph, node.operand("x"))
            return None if weight is None else VIEWS[op](graph, weight, node.attributes)
    return None


def _integers(graph: Graph, cast: Value) -> Value | None:
    """A cast of an int8 constant, encoded with one scale of 1."""
    found = _fold(graph, cast)
    if found is None or not found.is_cast or found.constant.dtype != "int8":
        return None
    data = found.constant
    one = graph.later(Filled(1, ()), TensorType("float32", ()), f"{stem_of(data)}.scale")
    return graph.encoded({"data": data, "scale": one}, INT8_TENSOR, TensorType(cast.dtype, data.shape), stem_of(data))


def _is_zero(graph: Graph, value: Value, shape: tuple[int, ...]) -> bool:
    found = _fold(graph, value)
    return found is not None and _is_narrow(value, shape) and not found.constant.elements.any()


def _is_unit(weight: Value) -> bool:
    """True if `weight` has one scale, of 1."""
    form = weight.components["scale"].form
    return weight.type.encoding == INT8_TENSOR and isinstance(form, Filled) and form.number == 1


def _scaled(graph: Graph, weight: Value, factor: Value) -> Value | None:
    """`weight`, whose scale is 1, with the scales `factor`."""
    scale = _scale(graph, factor, weight.shape)
    if scale is None:
        return None
    parts, encoding = {"data": weight.components["data"], "scale": scale.constant}, INT8_TENSOR
    if scale.axis is None:
        parts["scale"] = graph.reshaped(scale.constant, ())
    else:
        encoding = INT8_CHANNEL.along(scale.axis)
    return graph.encoded(parts, encoding, weight.type.plain, stem_of(weight))


# --- the nodes that read them ----------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """A node that reads a weight: the name of the operand, the weight, and the axis of its channels."""

    node: Node
    operand: str
    weight: Value
    axis: int


def _read(graph: Graph, node: Node) -> _Read | None:
    """`node` as the reader of a weight of integers; None if it is none."""
    if node.attributes.get("compute", "element") != "element":
        return None
    for name in node.op.encoded:
        axis, value = node.op.find_channel_axis(name, node.attributes), node[name]
        if axis is not None and value is not None and len(value.shape) == 2:
            weight = _weight(graph, value)
            return None if weight is None else _Read(node, name, weight, axis)
    return None


def _multiplication(graph: Graph, found: _Read, readers: list[Node]) -> tuple[Node, Value] | None:
    """The only reader of a product by integers without scales, which multiplies it by scales of its last axis, and the
    weight with these scales; None if there is no such reader.
    """
    node, output = found.node, found.node.output
    has_epilogue = node.op.name == "linear" and (
        node["bias"] is not None or node["residual"] is not None or node.attributes["activation"] != "none"
    )
    if (
        node.op.name not in ("linear", "matmul")
        or has_epilogue
        or not _is_unit(found.weight)
        or output in graph.outputs
    ):
        return None
    if len(readers) != 1 or readers[0].op.name != "mul" or not sizes.same(readers[0].output.type, output.type):
        return None
    factors = [value for value in readers[0].inputs if value is not None and value is not output]
    scale = _scale(graph, factors[0], output.shape) if len(factors) == 1 else None
    if scale is None or scale.axis not in (None, len(output.shape) - 1):
        return None
    shape = [1, 1]
    shape[found.axis] = scale.constant.type.size
    weight = _scaled(graph, found.weight, graph.reshaped(scale.constant, tuple(shape)))
    return None if weight is None else (readers[0], weight)


class _Encoded(NamedTuple):
    """A node that can read integers: what it reads, its weight with scales, and the last node that it replaces."""

    read: _Read
    weight: Value
    last: Node


def _find_encoded(graph: Graph) -> list[_Encoded]:
    users, found = graph.users(), list[_Encoded]()
    for read in [one for node in graph.nodes if (one := _read(graph, node)) is not None]:
        last, scaled = _multiplication(graph, read, users.get(read.node.output, [])) or (read.node, read.weight)
        weight = spread_scale(graph, scaled, read.axis)
        if weight is not None:
            found.append(_Encoded(read, weight, last))
    return found


def run(graph: Graph) -> int:
    """Number of nodes that read integers from now on."""
    found = [one for one in _find_encoded(graph) if graph.admits(one.last)]
    for read, weight, last in found:
        graph.replace(last.output, graph.emit_again(read.node, {read.operand: weight}, before=last))
        graph.remove({read.node, last})
    return len(found)


def find_computed(graph: Graph) -> list[Value]:
    """Constants of 8 bits from which the model computes float weights that `run` cannot encode."""
    bytes_of: dict[Value, Value] = {}  # a value that is computed from constants alone -> the largest one of bytes
    fixed, found = set[Value](), dict[Value, None]()
    encoded: set[Node] | None = None
    for node in graph.nodes:
        inputs = [value for value in node.inputs if value is not None]
        origins = [value if value.is_constant and value.dtype in _BYTES else bytes_of.get(value) for value in inputs]
        if inputs and all(value.is_constant or value in fixed for value in inputs):
            fixed.update(node.outputs)
            if known := [value for value in origins if value is not None]:
                bytes_of |= dict.fromkeys(node.outputs, max(known, key=lambda value: value.type.size))
            continue
        computed = [b for v, b in zip(inputs, origins, strict=True) if b is not None and v.dtype in _FLOATS]
        if computed and (node.op.name in _WEIGHTED or (node.op.encoded and node.op.view is None)):
            encoded = {one.read.node for one in _find_encoded(graph)} if encoded is None else encoded
            found |= dict.fromkeys(computed if node not in encoded else ())
    return list(found)


PASS = Pass(
    "encode_integers",
    run,
    before={
        "fold_constants": "it computes casts of constants",
        "use_linear": "it changes the product",
        "fuse_epilogue": "it adds what follows the product to it",
    },
)
