"""Views of constants as constants: permute, reshape and slice, by name of the op. Reads no elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from engine import sizes
from engine.encodings import INT8_CHANNEL, INT8_TENSOR
from engine.graph.forms import Filled, can_cut, can_reshape
from engine.graph.ir import Graph, Value
from engine.ops import TensorType


def _permute(graph: Graph, x: Value, attributes: Mapping[str, Any]) -> Value | None:
    return graph.permuted(x, attributes["axes_order"])


def _reshape(graph: Graph, x: Value, attributes: Mapping[str, Any]) -> Value | None:
    shape = attributes["shape"]
    return graph.reshaped(x, shape) if can_reshape(x.type, shape) else None


def _slice(graph: Graph, x: Value, attributes: Mapping[str, Any]) -> Value | None:
    where = tuple(attributes[name] for name in ("axis", "start", "stop", "step"))
    return graph.cut(x, *where) if can_cut(x.type, *where) else None


# `expand` is not here: no form repeats elements, and a file would hold them all.
VIEWS: dict[str, Callable[[Graph, Value, Mapping[str, Any]], Value | None]] = {
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
}
"""Op -> function that returns the view as a constant, or None if the encoding does not allow it."""


def stem_of(data: Value) -> str:
    """The name of the weight whose component `data` is this constant: its own name without ``.data``."""
    return _DATA.sub("", data.name)


_DATA = re.compile(r"\.data[_\d]*$")


def find_constant(graph: Graph, value: Value) -> Value | None:
    """`value` as a constant: itself, or views of a constant as a form of it. None for every other value."""
    node = value.node
    if value.is_constant or node is None:
        return value if value.is_constant else None
    if node.op.name not in VIEWS or not sizes.is_fixed(list(node.attributes.values())):
        return None
    base = find_constant(graph, node.operand("x"))
    return None if base is None else VIEWS[node.op.name](graph, base, node.attributes)


def spread_scale(graph: Graph, weight: Value, axis: int) -> Value | None:
    """`weight`, encoded as int8, with a scale for each index of `axis`; None if it has scales along another axis."""
    encoding, count = INT8_CHANNEL.along(axis), weight.shape[axis]
    if weight.type.encoding != INT8_TENSOR:
        return weight if weight.type.encoding == encoding else None
    scale = weight.components["scale"]
    name = stem_of(weight)
    many = graph.later(Filled(float(scale.elements), (count,)), TensorType("float32", (count,)), f"{name}.scale")
    parts = {"data": weight.components["data"], "scale": many}
    spread = graph.encoded(parts, encoding, weight.type.plain, name)
    spread.inherit(weight)
    return spread
