"""Stores weights in fewer bits, as `Config.precision` says, and sets the arithmetic of the products that read them.

Weights that the model itself has quantised stay as they are. This changes what a graph computes, so it is no pass of
the pipeline. It runs after the common passes, which fold numbers into weights: so each weight is rounded once. Weights
that two nodes read in the same encoding are stored once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from engine.encodings import BFLOAT16, FLOAT16, INT4, INT8_CHANNEL, Encoding
from engine.errors import ConfigError
from engine.graph import Graph, Node, Value, identity, is_decoded, joined_sizes, stem_of
from engine.ops.arithmetic import MOST_SUMMED
from engine.passes import encode_integers
from engine.passes.widen import find_narrow_type

GROUP = 32


class Weight(NamedTuple):
    """The weight that is the input `name` of a node.

    `channel` is as of `Op.find_channel_axis`. `summed` is the axis along which products are summed; of a table, the
    last.
    """

    name: str
    value: Value
    channel: int
    summed: int


class Precision(NamedTuple):
    """What a name of `Config.precision` means.

    Attributes:
        encode: the encoding of a weight; None leaves it as it is.
        compute: the arithmetic of products that read an encoded weight.
        is_integer: True if weights share a scale, so that a factor for some of them makes the others less exact.
        one_scale: True if all channels of a weight share a scale. Weights that passes have joined keep a scale each;
            kernels read it as one for each channel.
    """

    encode: Callable[[Weight], Encoding | None]
    compute: str = "element"
    is_integer: bool = False
    one_scale: bool = False


def _narrow(encoding: Encoding) -> Callable[[Weight], Encoding | None]:
    """`encoding`, or None if the elements already have the type that it stores."""
    return lambda weight: encoding if weight.value.dtype != encoding.stored else None


def _int8(weight: Weight) -> Encoding:
    return INT8_CHANNEL.along(weight.channel)


def _int4(weight: Weight) -> Encoding:
    """Groups along the summed axis of a matrix; 8 bits for a convolution, and if groups do not fit."""
    value = weight.value
    fits = len(value.shape) == 2 and value.shape[weight.summed] % GROUP == 0
    return INT4[GROUP].along(weight.summed) if fits else _int8(weight)


PRECISIONS: dict[str, Precision] = {
    "fp32": Precision(lambda _weight: None),
    "bf16": Precision(_narrow(BFLOAT16), "bfloat16"),
    "fp16": Precision(_narrow(FLOAT16)),
    "int8_weight": Precision(_int8, is_integer=True),
    "int8_weight_tensor": Precision(_int8, is_integer=True, one_scale=True),
    "int8_dynamic": Precision(_int8, "int8", is_integer=True),
    "int4_weight": Precision(_int4, is_integer=True),
}


_OVERFLOWS = {"float16": 65520.0, "bfloat16": float.fromhex("0x1.ffp127")}
"""Narrow type -> the smallest magnitude that rounds to an infinity in it."""

STORED = {"bfloat16": "bf16", "float16": "fp16"}
"""The precision of a weight without a chosen one, in a widened graph: by the narrow type that the model has it in."""


def is_stored_as_integers(graph: Graph, weight: Value) -> bool:
    """True if `apply` stores a weight as integers with shared scales."""
    name = weight.precision or graph.precision
    return name in PRECISIONS and PRECISIONS[name].is_integer


def has_one_scale(graph: Graph, weight: Value) -> bool:
    """True if `apply` stores a weight as integers, and all its channels with the same scale."""
    name = weight.precision or graph.precision
    return name in PRECISIONS and PRECISIONS[name].one_scale


def apply(graph: Graph) -> int:
    """Encode the weights of a graph after the common passes. Returns the number of nodes that changed.

    A weight has the precision of `Value.precision`, or else of `Graph.precision`. With neither, a weight that the model
    has in a narrow type is stored in it again, if the graph was widened, and others stay as they are.

    Raises ConfigError if the precision needs measurements of activations, or cannot store a weight of the model.
    """
    name = graph.precision
    if name is not None:
        _find(name)  # also for a model without weights
    if name == "fp32":
        _check_float32(graph)
    stored: dict[Hashable, Value] = {}
    rows: dict[Value, Value] = {}
    count = 0
    for node in list(graph.nodes):
        encoded: dict[str, Value | None] = {}
        compute = set[str]()
        for weight in _weights(node):
            chosen = weight.value.precision or name or _stored(node, weight.value)
            precision = _find(chosen)
            encoding = precision.encode(weight)
            if encoding is not None:
                encoded[weight.name] = _encode(graph, chosen, weight, encoding, stored)
                compute.add(precision.compute)
        if encoded:
            how: dict[str, Any] = {}
            if "compute" in node.op.attributes:
                how["compute"] = _arithmetic(node, compute.pop())
            if how.get("compute") == "int8":
                encoded |= _quantise_rows(graph, node, rows)
            is_index = node.op.name == "index"
            made = _look_up(graph, node, encoded["x"]) if is_index else graph.emit_again(node, encoded, **how)
            graph.replace(node.output, made)
            graph.remove([node])
            count += 1
    return count


def _quantise_rows(graph: Graph, node: Node, rows: dict[Value, Value]) -> dict[str, Value | None]:
    """The inputs of a product in ``int8`` in place of its x; `rows` has the bytes of what was quantised before."""
    x, weight = node.operand("x"), node.operand("weight")
    depth = weight.shape[1 if node.attributes["transpose_weight"] else 0]
    if x.dtype != "float32":
        raise ConfigError(
            f"precision: int8_dynamic: {node.op.name} has an x of {x.dtype}; convert the model by .float()"
        )
    if depth > MOST_SUMMED:
        raise ConfigError(
            f"precision: int8_dynamic: weight {graph.stem(weight.name)!r} has sums of {depth} products; those of "
            f"{MOST_SUMMED} fit 32 bits; a recipe can give this layer another precision"
        )
    if x not in rows:
        rows[x] = graph.emit("quantize_rows", [x], before=node, source=node.source)
    made = rows[x].node
    assert made is not None  # noqa: S101  # emitted above
    return dict(zip(("x", "scale"), made.outputs, strict=True))


def _look_up(graph: Graph, node: Node, table: Value | None) -> Value:
    """``table[ids]`` as an embedding, whose table may be encoded. Negative ids count from the end, so they become
    positive before. An id that `index` refuses is refused here, too.
    """
    _, ids = node.inputs
    assert ids is not None  # noqa: S101  # both are required inputs of a lookup
    assert table is not None  # noqa: S101  # as above
    size, zero = (graph.constant(np.asarray(n, ids.dtype)) for n in (table.shape[0], 0))

    def emit(op: str, *inputs: Value) -> Value:
        return graph.emit(op, inputs, before=node, source=node.source)

    ids = emit("where", emit("lt", ids, zero), emit("add", ids, size), ids)
    return emit("embedding", table, ids)


def _stored(node: Node, weight: Value) -> str:
    """The precision of a weight of `node` for which none was chosen.

    A convolution weight with a folded batch norm is rounded to bfloat16 a second time. The model instead rounds the
    result of the convolution. Those of float16 stay float32: no convolution reads float16, and a product with a factor
    may be beyond its range.
    """
    narrow = find_narrow_type(weight) or ""
    return "fp32" if node.op.name == "conv" and narrow == "float16" else STORED.get(narrow, "fp32")


def _find(name: str) -> Precision:
    """The precision called `name`; ConfigError if it needs measurements."""
    if name not in PRECISIONS:
        raise ConfigError(f"precision: {name}: scales of activations, which it needs, cannot be measured yet")
    return PRECISIONS[name]


def _encode(graph: Graph, name: str, weight: Weight, encoding: Encoding, stored: dict[Hashable, Value]) -> Value:
    """The value of `weight` in `encoding`, the same one for the same elements; `stored` caches them."""
    form = weight.value.form
    assert form is not None  # noqa: S101  (it is a constant)
    runs = joined_sizes(form, weight.channel) if PRECISIONS[name].one_scale else ()
    key = identity(form), encoding, runs
    if key not in stored:
        _check_range(graph, name, weight.value, encoding)
        stored[key] = graph.encode(weight.value, encoding, runs)
    return stored[key]


def _arithmetic(node: Node, compute: str) -> str:
    """The arithmetic of a node that reads a weight of a precision with `compute`.

    A convolution of several groups has few products for each element, so products in bfloat16 would not make it faster.
    It multiplies decoded weights by x in float32, and x is not rounded. Of integers there are products of linear layers
    alone: the rows of a convolution are windows, which overlap.
    """
    is_possible = compute in node.op.attributes["compute"].choices
    has_groups = node.op.name == "conv" and node.attributes["groups"] > 1
    return "element" if has_groups or not is_possible else compute


def widen_convolutions(graph: Graph) -> int:
    """Let convolutions in bfloat16 multiply floats. Returns their number.

    Without instructions for bfloat16 that is faster. The weight keeps its rounded elements, decoded, and x is not
    rounded: results are nearer to the model's. Call this before the passes of a target, which make linears of some.
    """
    decoded: dict[Value, Value] = {}
    nodes = [n for n in graph.nodes if n.op.name == "conv" and n.attributes["compute"] == "bfloat16"]
    with graph.scope.deciding():
        for node in nodes:
            weight = decode(graph, node.operand("weight"), decoded)
            graph.replace(node.output, graph.emit_again(node, {"weight": weight}, compute="element"))
    graph.remove(nodes)
    return len(nodes)


def decode(graph: Graph, weight: Value, decoded: dict[Value, Value]) -> Value:
    """`weight` as a constant without an encoding; `decoded` has those that were made before."""
    if weight.type.encoding is not None and weight not in decoded:
        assert weight.form is not None  # noqa: S101  (an encoded value is a constant)
        decoded[weight] = graph.later(weight.form, weight.type._replace(encoding=None), weight.name)
    return decoded.get(weight, weight)


def _weights(node: Node) -> Iterator[Weight]:
    """The inputs of `node` that can be encoded: floating-point constants that the model has not quantised itself."""
    of_index = is_lookup(node) and node.operand("x").is_parameter
    for name in ("x",) if of_index else node.op.encoded:
        value = node[name]
        if value is None or value.form is None or not value.is_plain or is_decoded(value.form):
            continue
        channel = 0 if of_index else node.op.find_channel_axis(name, node.attributes)
        is_stack = node.op.name == "matmul" and len(value.shape) != 2
        is_summand = node.op.name == "embedding_norm" and node[f"{name}_ids"] is None
        is_float = value.dtype in ("float64", "float32", "float16", "bfloat16")
        if channel is not None and is_float and not is_stack and not is_summand:
            yield Weight(name, value, channel, 1 - channel)


def _check_range(graph: Graph, name: str, weight: Value, encoding: Encoding) -> None:
    """ConfigError if the encoding cannot store an element of the weight.

    Integers store no infinity and no NaN. A narrow float type stores both, but turns large numbers into infinities.
    """
    elements = weight.elements.astype(np.float32, copy=False)
    if encoding.is_integer:
        if not np.isfinite(elements).all():
            what = f"weight {graph.stem(weight.name)!r} is not finite, and integers cannot say so"
            raise ConfigError(f"precision: {name}: {what}")
        return
    limit = _OVERFLOWS.get(encoding.stored, math.inf)
    # Infinities and NaN may stay as they are. Looking for them takes a copy, so it is done only if there are any.
    largest = max(elements.max(initial=0), -elements.min(initial=0))
    if not math.isfinite(largest):
        largest = np.abs(elements[np.isfinite(elements)]).max(initial=0)
    if largest >= limit:
        raise ConfigError(
            f"precision: {name}: weight {graph.stem(weight.name)!r} has an element of magnitude {largest:g}, which "
            f"{encoding.stored} cannot store; a recipe can give this layer another precision"
        )


def is_lookup(node: Node) -> bool:
    """True for ``table[ids]``, where `table` is a matrix. It is a weight only if it is a parameter of the model."""
    return node.op.name == "index" and node.attributes["axes"] == (0,) and len(node.operand("x").shape) == 2


def names_of_weights(node: Node) -> tuple[str, ...]:
    """The inputs that may be weights, even if no encoding can store them; both factors, as passes may exchange them."""
    match node.op.name:
        case "matmul":
            return ("a", "b")
        case "conv_transpose":
            return ("weight",)
    return ("x",) if is_lookup(node) else tuple(node.op.encoded)


def find_left(graph: Graph) -> list[str]:
    """Weights that `apply` left in float32 although a precision of fewer bits was chosen for them, with their readers.

    These are the weights of transposed convolutions and of batched matrix products. Other constants, such as masks and
    tables of positions, count only if a recipe names their layer. Call this after `apply`.
    """
    left: dict[Value, str] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is None or not value.is_plain or value.dtype not in ("float64", "float32"):
                continue
            is_weight = node.op.name in ("conv_transpose", "matmul") and sum(size != 1 for size in value.shape) > 1
            chosen = value.precision if len(value.shape) > 1 else None
            if (chosen or (graph.precision if is_weight else None)) not in (None, "fp32"):
                left[value] = f"{graph.stem(value.name)} ({node.op.name})"
    return list(left.values())


def find_quantised(graph: Graph) -> list[Value]:
    """The weights that the model itself has quantised and the graph stores as integers. Call it before `apply`."""
    return [constant for constant in graph.constants() if constant.type.encoding is not None]


def find_decoded(graph: Graph) -> list[str]:
    """The weights that the model itself has quantised and the graph stores decoded. Call it before the passes.

    One of their readers has no fast kernel for integers, or no pass recognises how the model decodes them.
    """
    plain = ((c, c.form) for c in graph.constants() if c.is_plain)
    found = {identity(form): c for c, form in plain if form is not None and is_decoded(form)}
    computed = encode_integers.find_computed(graph)
    return [*(graph.stem(value.name) for value in found.values()), *(graph.stem(stem_of(value)) for value in computed)]


def _check_float32(graph: Graph) -> None:
    """ConfigError if a node computes in another floating-point type, or the model has quantised weights."""
    if quantised := find_quantised(graph):
        raise ConfigError(
            f"precision: fp32: weight {graph.stem(quantised[0].name)!r} is stored as {quantised[0].type.encoding} in "
            "the model; precision=None runs it as it is"
        )
    for node in graph.nodes:
        dtype = node.output.dtype
        if dtype in ("float64", "float16", "bfloat16"):
            raise ConfigError(f"precision: fp32: the model computes {node.op.name} in {dtype}; convert it by .float()")
