"""Elementwise ops, programs of them, and copies: one loop over the result, whose body is generated for each step.

A flat index over the result is taken apart into coordinates. Axes along which all operands are evenly spaced are joined
first, so that dense operands need no division. Operands are read where they lie, by strides of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from engine.dtypes import DTYPES
from engine.ops import TABLE
from engine.targets.triton.kernel_table import Answer, Request, Tensor, kernel
from engine.targets.triton.kernels._layouts import broadcast_strides, join_axes
from engine.targets.triton.kernels._source import (
    BLOCK,
    compile_text,
    coordinate_lines,
    dot_text,
    needs_64_bits,
    size_arguments,
    stride_arguments,
)
from engine.targets.triton.launch import Launch, Launches, Operand, count_blocks

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class Body(NamedTuple):
    """How an op is computed: `text` is Triton's expression of the operands ``{0}``, ``{1}`` and so on.

    `wide`: floats of 16 bits are computed in float32; False if the op only chooses among its operands. `dtypes` are the
    element types for which it is right; (): all.
    """

    text: str
    wide: bool = True
    dtypes: tuple[str, ...] = ()


_HALF = ("float16", "bfloat16", "float32")  # functions that have no float64 form here
_WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
# Op -> its body. An op that is not here is refused by name.
BODIES: Mapping[str, Body] = {
    "neg": Body("-{0}"),
    "abs": Body("tl.abs({0})"),
    # Of floats: from whole numbers, triton 3.6 and 3.7 make code for bfloat16 that turns -1 into 1 on a GPU.
    "sign": Body("tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0)).to({0}.dtype)"),
    "exp": Body("tl.exp({0})"),
    "expm1": Body("_f.expm1({0})", dtypes=_HALF),
    "log1p": Body("_f.log1p({0})"),
    "round": Body("_f.round_even({0})"),
    "trunc": Body("_f.trunc({0})"),
    "pow": Body("_f.power({0}, {1})", dtypes=_HALF),
    "exp2": Body("tl.exp2({0})"),
    "log": Body("tl.log({0})"),
    "log2": Body("tl.log2({0})"),
    "sqrt": Body("_f.sqrt({0})"),
    "rsqrt": Body("_f.divide(1.0, _f.sqrt({0}))"),
    "reciprocal": Body("_f.divide(1.0, {0})"),
    "sin": Body("tl.sin({0})"),
    "cos": Body("tl.cos({0})"),
    "tanh": Body("_f.tanh({0})", dtypes=_HALF),
    "sigmoid": Body("_f.sigmoid({0})"),
    "erf": Body("tl.erf({0})"),
    "relu": Body("tl.where({0} < 0, ({0} * 0).to({0}.dtype), {0})"),
    "silu": Body("{0} * _f.sigmoid({0})"),
    "gelu": Body("_f.gelu({0})"),
    "gelu_tanh": Body("_f.gelu_tanh({0})"),
    "floor": Body("tl.floor({0})"),
    "ceil": Body("tl.ceil({0})"),
    "isnan": Body("{0} != {0}"),
    "isinf": Body("tl.abs({0}) == float('inf')"),
    "logical_not": Body("{0} == 0"),
    "cast": Body("{0}"),
    **{f"to_{d.name}": Body("{0}") for d in DTYPES},  # of programs: the store casts
    "to_float32": Body("{0}.to(tl.float32)"),
    "copy": Body("{0}", wide=False),
    "add": Body("{0} + {1}"),
    "sub": Body("{0} - {1}"),
    "mul": Body("{0} * {1}"),
    "div": Body("_f.divide({0}, {1})"),
    "maximum": Body("tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})"),
    "minimum": Body("tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})"),
    "eq": Body("{0} == {1}"),
    "ne": Body("{0} != {1}"),
    "lt": Body("{0} < {1}"),
    "le": Body("{0} <= {1}"),
    "gt": Body("{0} > {1}"),
    "ge": Body("{0} >= {1}"),
    "logical_and": Body("({0} != 0) & ({1} != 0)"),
    "logical_or": Body("({0} != 0) | ({1} != 0)"),
    "logical_xor": Body("({0} != 0) != ({1} != 0)"),
    "bitwise_and": Body("{0} & {1}", dtypes=_WHOLE),
    "bitwise_or": Body("{0} | {1}", dtypes=_WHOLE),
    "bitwise_xor": Body("{0} ^ {1}", dtypes=_WHOLE),
    "bitwise_not": Body("(~{0}.to(tl.int64)).to({0}.dtype)", dtypes=_WHOLE),  # the interpreter has no ~ of uint8
    "where": Body("tl.where({0} != 0, {1}, {2})", wide=False),
}
# For bool, where + and * are "or" and "and", and the inverse of a bit is that of the value.
_BOOL_BODIES = {
    "add": Body("{0} | {1}"),
    "mul": Body("{0} & {1}"),
    "maximum": Body("{0} | {1}"),
    "minimum": Body("{0} & {1}"),
    "bitwise_not": Body("{0} == 0"),
}


# --- source text -----------------------------------------------------------------------------------------------------


class Plain(NamedTuple):
    """A step of a body: the op, and the numbers of its operands among the inputs and the steps before it."""

    name: str
    operands: tuple[int, ...]


def _load_lines(number: int, dtype: str, names: tuple[str, ...], *, wide: bool) -> list[str]:
    """Lines that read input `number`, in float32 if it has 16 bits and the body is `wide`."""
    lines = [f"x{number} = tl.load(p{number} + {dot_text('c', f's{number}_', names)}, mask=inside)"]
    if dtype in ("float16", "bfloat16") and wide:
        lines.append(f"x{number} = x{number}.to(tl.float32)")
    return lines


@cache
def make_kernel(
    names: tuple[str, ...], rank: int, dtypes: tuple[str, ...], result: str, body: tuple[Plain, ...], wide_index: bool
) -> Any:
    """The kernel of a body, whose last step makes the result. Offsets need 64 bits if `wide_index`.

    The parameters `names` are without strides of 0; `rank` counts the axes after joining.
    """
    start = "tl.program_id(0).to(tl.int64)" if wide_index else "tl.program_id(0)"
    lines = [f"i = {start} * BLOCK + tl.arange(0, BLOCK)", "inside = i < total", *coordinate_lines("i", "c", "n", rank)]
    wide = any(BODIES[step.name].wide for step in body)
    for number, dtype in enumerate(dtypes):
        lines += _load_lines(number, dtype, names, wide=wide)
    types = list(dtypes)
    for number, step in enumerate(body, len(dtypes)):
        lines.append(f"x{number} = {body_of(step, types).text.format(*(f'x{o}' for o in step.operands))}")
        types.append(result_type(step.name, [types[o] for o in step.operands], result))
    last = f"x{len(dtypes) + len(body) - 1}"
    made = f"{last} != 0" if result == "bool" else f"{last}.to(out.dtype.element_ty)"
    lines.append(f"tl.store(out + {dot_text('c', 'o', names)}, {made}, mask=inside)")
    return compile_text("pointwise", names, lines)


def body_of(step: Plain, types: Sequence[str]) -> Body:
    """How a step is computed for these element types."""
    if step.name in _BOOL_BODIES and types[step.operands[0]] == "bool":
        return _BOOL_BODIES[step.name]
    return BODIES[step.name]


_LOGIC = ("logical_and", "logical_or", "logical_xor", "logical_not")
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", *_LOGIC)


def result_type(name: str, types: Sequence[str], result: str) -> str:
    """Element type of what a step makes."""
    if name in _RELATIONS:
        return "bool"
    if name == "cast":
        return result
    return name.removeprefix("to_") if name.startswith("to_") else types[-1]


# --- plans -----------------------------------------------------------------------------------------------------------


def launch_body(
    inputs: Sequence[Tensor], output: Tensor, body: tuple[Plain, ...], *, at: Operand | None = None
) -> Launch:
    """The launch that computes `body` of `inputs`, each broadcast to `output`, and writes it there or to `at`."""
    shape = output.shape
    sizes, steps = join_axes(shape, [*(broadcast_strides(one, shape) for one in inputs), output.strides])
    total = math.prod(shape)
    arguments: dict[str, Any] = {f"p{n}": one.pointer() for n, one in enumerate(inputs)}
    arguments |= {"out": at or output.pointer(), "total": total, **size_arguments("n", sizes)}
    for n, own in enumerate(steps[:-1]):
        arguments |= stride_arguments(f"s{n}_", own)
    arguments |= stride_arguments("o", steps[-1])
    types = tuple(one.dtype for one in inputs)
    function = make_kernel(tuple(arguments), len(sizes), types, output.dtype, body, needs_64_bits(sizes, steps))
    return Launch(function, (max(count_blocks(total, BLOCK), 1),), {**arguments, "BLOCK": BLOCK}, {"num_warps": 4})


def launch_copy(source: Tensor, target: Tensor, *, at: Operand | None = None) -> Launch:
    """The launch that copies one operand to another of the same shape, or broadcasts it. `at` as in `launch_body`."""
    return launch_body([source], target, (Plain("copy", (0,)),), at=at)


def _plan(request: Request, body: tuple[Plain, ...]) -> Answer:
    inputs = [request.need(position) for position in range(len(request.inputs))]
    types = [one.dtype for one in inputs]
    for step in body:
        allowed = BODIES[step.name].dtypes
        if allowed and types[step.operands[0]] not in allowed:
            return None
        types.append(result_type(step.name, [types[o] for o in step.operands], request.output.dtype))
    return Launches((launch_body(inputs, request.output, body),))


def _single(op: str) -> None:
    @kernel(op, variant="loop")
    def plan(request: Request) -> Answer:
        name = "gelu_tanh" if op == "gelu" and request.attributes["approximate"] == "tanh" else op
        return _plan(request, (Plain(name, tuple(range(len(request.inputs)))),))


for _op in [name for name in BODIES if name in TABLE]:
    _single(_op)


@kernel("pointwise", variant="loop")
def plan_program(request: Request) -> Answer:
    """A program of pointwise ops."""
    steps = request.attributes["program"]
    return _plan(request, tuple(Plain(name, tuple(operands)) for name, *operands in steps))
