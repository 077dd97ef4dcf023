"""Ops that passes alone make: several other ops in one run over memory. Composed of their declarations, nothing new.

A program is a tuple of steps, each a tuple of a name and the positions of its operands. Position i below the number of
inputs is input i; after the inputs come the results of the steps, in order. The last step makes the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.ops.check import result, wrong
from engine.ops.table import TABLE, Attribute, Attributes, Op, TensorType, Types, declare

# Name of a step -> op and attributes. The order is that of the codes that C receives.
STEPS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{
        name: (name, {})
        for name in ("neg", "abs", "sqrt", "rsqrt", "reciprocal", "exp", "tanh", "sigmoid", "erf", "relu", "silu")
    },
    "gelu": ("gelu", {"approximate": "none"}),
    "gelu_tanh": ("gelu", {"approximate": "tanh"}),
    **{name: (name, {}) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "where")},
}
MAX_INPUTS = 6  # EB_LOOP_OPERANDS of csrc/iterate.h, less the output
MAX_STEPS = 16


def _types(inputs: Sequence[TensorType], program: Sequence[Sequence[Any]]) -> list[TensorType]:
    """Types of the inputs, then of each step's result, by the steps' own rules. ValueError for a broken program."""
    types = list(inputs)
    for name, *operands in program:
        op, attributes = STEPS[name]
        if len(operands) != len(TABLE[op].inputs) or any(o >= len(types) for o in operands):
            raise wrong("pointwise", f"{len(TABLE[op].inputs)} operands made before", (name, *operands))
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
        if type_ != whole:
            raise wrong("pointwise", f"every step to make {whole}", f"{type_} of {step}")
    used = {o for _name, *operands_ in program for o in operands_}
    if used != set(range(len(operands) + len(program) - 1)):
        raise wrong("pointwise", "every input and every step but the last to be read", program)
    return result("pointwise", whole.dtype, whole.shape)


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
        doc="pointwise ops one after the other, each rounded as it is alone; float32, conditions of where are bool",
    )
)
