"""Store a weight that is a cast of a constant of integers as these integers, with the scales that follow its product.

Quantised models multiply by integers that are cast to floats, and multiply the sums by a scale for each channel:
``(x @ cast(w)) * scale``. The pass makes it ``x @ W``, where W is an encoded constant that has `w` and `scale` as its
components. Without such a multiplication all scales are 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine import dtypes, sizes
from engine.encodings import INT8_CHANNEL
from engine.graph import VIEWS, Filled, Graph, Node, Value, stem_of
from engine.ops import TensorType
from engine.passes.base import Pass

# Op -> the operand that may be encoded, and the attribute that is True if axis 0 has the channels of the result.
_PRODUCTS = {"linear": ("weight", "transpose_weight"), "matmul": ("b", "transpose_b")}
_FLOATS = ("float32", "bfloat16", "float16")


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
    if below is None or not sizes.is_fixed(list(node.attributes.values())):
        return None
    if node.op.name == "cast":
        same = node.output.dtype == node.operand("x").dtype
        return below if same else None if below.is_cast else _Folded(below.constant, is_cast=True)
    view = VIEWS[node.op.name](graph, below.constant, node.attributes)
    return None if view is None else _Folded(view, below.is_cast)


def _integers(graph: Graph, value: Value) -> Value | None:
    """The int8 constant of which `value` is a cast; None if it is none."""
    found = _fold(graph, value)
    return found.constant if found is not None and found.is_cast and found.constant.dtype == "int8" else None


def _scales(graph: Graph, value: Value, result: TensorType) -> Value | None:
    """`value`, a factor of `result`, as one float32 scale for each index of the last axis; None if it is none."""
    found, count = _fold(graph, value), result.shape[-1]
    shape = value.shape
    fits = len(shape) <= len(result.shape) and shape[-1:] in ((), (1,), (count,)) and set(shape[:-1]) <= {1}
    if found is None or not fits or found.constant.dtype not in _FLOATS or not sizes.is_fixed(count):
        return None
    scale = found.constant
    if found.is_cast or scale.dtype != "float32":  # rounded as in the model; float32 has every narrower number
        elements = scale.elements.astype(dtypes.dtype(value.dtype).numpy).astype(np.float32)
        scale = graph.constant(elements, scale.name)
    if not np.isfinite(scale.elements).all():
        return None
    if scale.type.size == 1 != count:
        number = float(scale.elements.reshape(-1)[0])
        return graph.later(Filled(number, (count,)), TensorType("float32", (count,)), scale.name)
    return graph.reshaped(scale, (count,))


class _Product(NamedTuple):
    """A product whose weight is a cast of integers: the node, the operand's name, the integers, their channel axis."""

    node: Node
    operand: str
    integers: Value
    axis: int


def _product(graph: Graph, node: Node) -> _Product | None:
    """`node` as a product of integers without an epilogue; None if it is none."""
    if node.op.name not in _PRODUCTS or node.attributes["compute"] != "element":
        return None
    operand, transposed = _PRODUCTS[node.op.name]
    plain = node.op.name == "matmul" or (
        node["bias"] is None and node["residual"] is None and node.attributes["activation"] == "none"
    )
    weight = node.operand(operand)
    integers = _integers(graph, weight) if plain and len(weight.shape) == 2 else None
    return None if integers is None else _Product(node, operand, integers, 0 if node.attributes[transposed] else 1)


def _multiplication(graph: Graph, product: _Product, readers: list[Node]) -> tuple[Node, Value] | None:
    """The only reader of `product`, which multiplies it by constant scales, and the scales; None if it is none."""
    output = product.node.output
    if output in graph.outputs or len(readers) != 1 or readers[0].op.name != "mul":
        return None
    (mul,) = readers
    factors = [value for value in mul.inputs if value is not output and value is not None]
    if len(factors) != 1 or not sizes.same(mul.output.type, output.type):
        return None
    scales = _scales(graph, factors[0], output.type)
    return None if scales is None else (mul, scales)


def run(graph: Graph) -> int:
    """Number of products that read integers from now on."""
    users = graph.users()
    products = [found for node in graph.nodes if (found := _product(graph, node)) is not None]
    for product in products:
        node, integers = product.node, product.integers
        scaled = _multiplication(graph, product, users.get(node.output, []))
        last, scales = scaled or (node, _ones(graph, integers.shape[product.axis]))
        type_ = TensorType(node.operand(product.operand).dtype, integers.shape)
        parts = {"data": integers, "scale": scales}
        weight = graph.encoded(parts, INT8_CHANNEL.along(product.axis), type_, stem_of(integers))
        graph.replace(last.output, graph.emit_again(node, {product.operand: weight}, before=last))
        graph.remove({node, last})
    return len(products)


def _ones(graph: Graph, count: int) -> Value:
    return graph.later(Filled(1, (count,)), TensorType("float32", (count,)), "scale")


PASS = Pass(
    "encode_integers",
    run,
    before={
        "fold_constants": "it computes casts of constants",
        "use_linear": "it changes the product",
        "fuse_epilogue": "it adds what follows the product to it",
    },
)
