"""Ops that passes alone make: several other ops in one run over memory. Composed of their declarations, nothing new.

A program of pointwise ops is a tuple of steps, each a tuple of a name and the positions of its operands. Position i
below the number of inputs is input i; after the inputs come the results of the steps, in order. The last step makes the
result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.dtypes import DTYPES
from engine.ops.check import (
    broadcast_of,
    of_dtype,
    of_rank,
    of_same_dtype,
    of_shape,
    optional,
    present,
    result,
    wrong,
)
from engine.ops.matmul import ACTIVATIONS
from engine.ops.rounding import RESULT, Rounding
from engine.ops.table import TABLE, Attribute, Attributes, Op, TensorType, Types, declare

RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
# Name of a step -> op and attributes. The order is that of the codes that C receives.
STEPS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{
        name: (name, {})
        for name in ("neg", "abs", "sqrt", "rsqrt", "reciprocal", "exp", "tanh", "sigmoid", "erf", "relu", "silu")
    },
    **{name: (name, {}) for name in ("sign", "expm1", "log", "log1p", "sin", "cos", "floor", "ceil", "round", "trunc")},
    "gelu": ("gelu", {"approximate": "none"}),
    "gelu_tanh": ("gelu", {"approximate": "tanh"}),
    **{name: (name, {}) for name in ("isnan", "isinf", "add", "sub", "mul", "div", "maximum", "minimum", "pow")},
    **{name: (name, {}) for name in (*RELATIONS, "where")},
    **{f"to_{d.name}": ("cast", {"dtype": d.name}) for d in DTYPES},
}
# No target is meant: these bound the work that a file can ask of whoever checks it. A target has limits of its own.
MAX_INPUTS = 32
MAX_STEPS = 128


def _types(inputs: Sequence[TensorType], program: Sequence[Sequence[Any]]) -> list[TensorType]:
    """Types of the inputs, then of each step's result, by the steps' own rules. ValueError for a broken program."""
    types = list(inputs)
    for name, *operands in program:
        op, attributes = STEPS[name]
        if len(operands) != len(TABLE[op].inputs) or any(o >= len(types) for o in operands):
            raise wrong("pointwise", f"{len(TABLE[op].inputs)} operands made before", (name, *operands))
        for operand, role in zip(operands, TABLE[op].input_names, strict=True):
            if op != "cast" and role != "condition" and types[operand].dtype != "float32":
                raise wrong("pointwise", f"float32 as {role} of {name}", types[operand])
        types += TABLE[op].infer([types[o] for o in operands], attributes)
    return types


def _present(inputs: Types) -> list[TensorType]:
    found = [t for t in inputs if t is not None]
    if len(found) != len(inputs) or not 1 <= len(found) <= MAX_INPUTS:
        raise wrong("pointwise", f"1 to {MAX_INPUTS} inputs, all present", f"{len(found)} of {len(inputs)}")
    return found


def _infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    program, operands = attributes["program"], _present(inputs)
    if not 1 <= len(program) <= MAX_STEPS:
        raise wrong("pointwise", f"1 to {MAX_STEPS} steps", len(program))
    made = _types(operands, program)[len(operands) :]
    whole = TensorType("float32", made[-1].shape)
    for step, type_ in zip(program, made, strict=True):
        is_last_cast = type_ is made[-1] and step[0].startswith("to_")
        made_bool = type_ == TensorType("bool", whole.shape) and not step[0].startswith("to_")
        if type_ != whole and not is_last_cast and not made_bool:
            raise wrong(
                "pointwise", f"every step to make {whole} or a truth value, or to cast at the end", f"{type_} of {step}"
            )
    used = {o for _name, *operands_ in program for o in operands_}
    if used != set(range(len(operands) + len(program) - 1)):
        raise wrong("pointwise", "every input and every step but the last to be read", program)
    return result("pointwise", made[-1].dtype, whole.shape)


def _reference(*xs: np.ndarray, program: Sequence[Sequence[Any]]) -> np.ndarray:
    values = list(xs)
    for name, *operands in program:
        op, attributes = STEPS[name]
        values.append(np.asarray(TABLE[op].reference(*(values[o] for o in operands), **attributes)))
    return values[-1]


def _flops(inputs: Types, _outputs: Sequence[TensorType], attributes: Attributes) -> int:
    types = _types(_present(inputs), attributes["program"])
    total = 0
    for position, (name, *operands) in enumerate(attributes["program"], len(inputs)):
        op, own = STEPS[name]
        total += TABLE[op].flops([types[o] for o in operands], [types[position]], own)
    return total


declare(
    Op(
        "pointwise",
        "fused",
        ("xs*",),
        _infer,
        _reference,
        {"program": Attribute("program", choices=tuple(STEPS))},
        flops=_flops,
        inplace=tuple(range(MAX_INPUTS)),
        rounding=Rounding(("each step",)),
        doc="pointwise ops one after the other, each rounded as it is alone, in float32; conditions are bool, "
        "inputs of other types are cast, and so may be the result",
    )
)


# --- embedding_norm ------------------------------------------------------------------------------------------------

TERMS = ("first", "second", "third")  # TERMS of csrc/kernels/vector/norm.c


def _terms(inputs: Types) -> list[tuple[TensorType, TensorType | None]]:
    """(values, ids or None) of every term that is there. ValueError where one is there without the one before it."""
    name = "embedding_norm"
    pairs = [(optional(inputs, 2 * n), optional(inputs, 2 * n + 1)) for n in range(len(TERMS))]
    present(name, inputs, 1, "first_ids")
    count = max(n + 1 for n, pair in enumerate(pairs) if any(pair))
    found = []
    for n, (_values, ids) in enumerate(pairs[:count]):
        values = of_dtype(name, TERMS[n], present(name, inputs, 2 * n, TERMS[n]), frozenset({"float32"}))
        if ids is not None:
            of_rank(name, TERMS[n], values, 2, 2)
        found.append((values, ids))
    return found


def _term_type(values: TensorType, ids: TensorType | None) -> TensorType:
    return values if ids is None else TABLE["embedding"].infer([values, ids], {})[0]


def _norm_operands(name: str, x: Any, weight: Any, bias: Any) -> list[Any]:
    """Inputs of the norm `name` without an addend."""
    return [x, weight, bias, None] if name == "layer_norm" else [x, weight, None]


def _embedding_norm_infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    name, terms = "embedding_norm", [_term_type(*term) for term in _terms(inputs)]
    width = terms[0].shape[-1:]
    for term in terms:
        if term.shape[-1:] != width:
            raise wrong(name, f"terms of {list(width)} columns", term)
    for position, operand in enumerate(("weight", "bias"), 2 * len(TERMS)):
        given = optional(inputs, position)
        if given is not None:
            of_shape(name, operand, of_same_dtype(name, operand, given, "float32"), width)
    if attributes["norm"] == "rms_norm" and optional(inputs, 7) is not None:
        raise wrong(name, "no bias for rms_norm", inputs[7])
    return result(name, "float32", broadcast_of(name, terms))


def _embedding_norm_reference(
    first: np.ndarray,
    first_ids: np.ndarray,
    second: np.ndarray | None,
    second_ids: np.ndarray | None,
    third: np.ndarray | None,
    third_ids: np.ndarray | None,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    norm: str,
    epsilon: float,
) -> Any:
    total = TABLE["embedding"].reference(first, first_ids)
    for values, ids in ((second, second_ids), (third, third_ids)):
        if values is not None:
            term = values if ids is None else TABLE["embedding"].reference(values, ids)
            total = TABLE["add"].reference(total, term)
    return TABLE[norm].reference(*_norm_operands(norm, total, weight, bias), axes=1, epsilon=epsilon)


def _embedding_norm_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    y, norm = outputs[0], TABLE[attributes["norm"]]
    operands = _norm_operands(norm.name, y, optional(inputs, 6), optional(inputs, 7))
    return norm.flops(operands, outputs, {"axes": 1}) + (len(_terms(inputs)) - 1) * y.size


def _embedding_norm_bytes(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """Ids, the rows that they name, and each other operand once."""
    terms = _terms(inputs)
    rows = sum(_term_type(values, ids).nbytes + (0 if ids is None else ids.nbytes) for values, ids in terms)
    return rows + sum(t.nbytes for t in (*inputs[6:], *outputs) if t is not None)


declare(
    Op(
        "embedding_norm",
        "fused",
        ("first", "first_ids", "second?", "second_ids?", "third?", "third_ids?", "weight?", "bias?"),
        _embedding_norm_infer,
        _embedding_norm_reference,
        {"norm": Attribute("choice", "layer_norm", choices=("layer_norm", "rms_norm")), "epsilon": Attribute("float")},
        flops=_embedding_norm_flops,
        nbytes=_embedding_norm_bytes,
        encoded={"first": "", "second": "", "third": ""},
        rounding=Rounding(("each sum of terms", RESULT)),
        doc="norm over the last axis of (first + second) + third, float32: a term is the rows of a table [V, n] at its "
        "ids, or has no ids and is added as it is, broadcast; ids outside of [0, V) are an error",
    )
)


# --- expand_depthwise ----------------------------------------------------------------------------------------------


def _expand_parts(attributes: Attributes, channels: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of the linear and of the conv that the op stands for, of which `channels` lie between."""
    spatial = {name: attributes[name] for name in ("stride", "low", "high", "dilation")}
    linear = {
        "transpose_weight": True,
        "activation": attributes["expand_activation"],
        "alpha": 1.0,
        "compute": "element",
    }
    return linear, {**spatial, "groups": channels, "activation": attributes["activation"], "channels_last": True}


def _expand_depthwise_types(inputs: Types, attributes: Attributes) -> tuple[TensorType, TensorType]:
    """What lies between, and the result."""
    name = "expand_depthwise"
    x = of_rank(name, "x", of_same_dtype(name, "x", present(name, inputs, 0, "x"), "float32"), 4, 4)
    expand, weight = present(name, inputs, 1, "expand"), present(name, inputs, 3, "weight")
    of_rank(name, "expand", expand, 2, 2)
    linear, conv = _expand_parts(attributes, expand.shape[0])
    if weight.shape[:1] != expand.shape[:1]:
        raise wrong(name, f"a kernel for each of the {expand.shape[0]} channels of {expand}", weight)
    try:
        between = TABLE["linear"].infer([x, expand, optional(inputs, 2), None], linear)[0]
        return between, TABLE["conv"].infer([between, weight, optional(inputs, 4), None], conv)[0]
    except ValueError as error:  # which names the part
        raise ValueError(f"{name}: {str(error).partition(': ')[2]}") from None


def _expand_depthwise_reference(
    x: np.ndarray,
    expand: np.ndarray,
    expand_bias: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray | None,
    **attributes: Any,
) -> Any:
    linear, conv = _expand_parts(attributes, expand.shape[0])
    between = TABLE["linear"].reference(x, expand, expand_bias, None, **linear)
    return TABLE["conv"].reference(between, weight, bias, None, **conv)


def _expand_depthwise_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    x, expand, expand_bias, weight, bias = inputs
    between, _result = _expand_depthwise_types(inputs, attributes)
    linear, conv = _expand_parts(attributes, between.shape[-1])
    product = TABLE["linear"].flops([x, expand, expand_bias, None], [between], linear)
    return product + TABLE["conv"].flops([between, weight, bias, None], outputs, conv)


declare(
    Op(
        "expand_depthwise",
        "fused",
        ("x", "expand", "expand_bias?", "weight", "bias?"),
        lambda inputs, attributes: _expand_depthwise_types(inputs, attributes)[1:],
        _expand_depthwise_reference,
        {
            **{name: Attribute("ints") for name in ("stride", "low", "high", "dilation")},
            "expand_activation": Attribute("choice", "none", tuple(ACTIVATIONS)),
            "activation": Attribute("choice", "none", tuple(ACTIVATIONS)),
        },
        flops=_expand_depthwise_flops,
        encoded={"expand": "", "weight": ""},
        rounding=Rounding(("the linear's result", RESULT)),
        doc="conv, every channel alone, of linear(x), whose result is rounded as it is alone; float32, x [N, H, W, C], "
        "expand [E, C], expand_bias [E], weight [E, 1, *K], bias [E]; padding is zeros around the linear's result",
    )
)
