"""Calls that make tensors out of numbers, and the triangles of a matrix."""

from __future__ import annotations

import math

from engine import dtypes
from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import FROM_META, aten
from engine.graph import Value
from engine.ops.create import clamped_diagonal
from engine.sizes import Size, is_fixed, whole

_DTYPE = {"dtype": FROM_META}
_SIZED = {
    "dtype": FROM_META,
    "self": "torch's result has its shape and type",
    **dict.fromkeys(("size", "stride", "physical_layout"), "torch's result has this shape and layout"),
}


def _constant(number: int, *names: str) -> None:
    @aten(*names, harmless=_SIZED)
    def translate(x: CallContext) -> Value:
        return x.fill(number, x.result)


_constant(0, "zeros", "zeros_like", "new_zeros")
_constant(1, "ones", "ones_like", "new_ones")
# The contents of uninitialised memory are undefined, so zeros will do.
_constant(0, "empty.memory_format", "empty_like", "new_empty", "empty_strided", "empty_permuted", "new_empty_strided")


@aten("zero", harmless=_SIZED)
def zero(x: CallContext) -> Value:
    return x.fill(0, x.result)


@aten("full", "full_like", "new_full", harmless=_SIZED)
def full(x: CallContext, fill_value: Number) -> Value:
    return x.fill(fill_value, x.result)


@aten("scalar_tensor", harmless=_DTYPE)
def scalar_tensor(x: CallContext, s: Number) -> Value:
    return x.scalar(s, x.result.dtype)


@aten("arange", "arange.start", "arange.start_step", harmless=_DTYPE)
def arange(x: CallContext, end: Number, start: Number = 0, step: Number = 1) -> Value:
    """start, start + step, ... before end. torch counts the elements in float64, or exactly for integers."""
    result = x.result
    if dtypes.dtype(result.dtype).kind == "int":
        start, end, step = whole(start), whole(end), whole(step)
    length = (
        -((start - end) // step)
        if all(isinstance(number, int | Size) for number in (start, end, step))
        else math.ceil((end - start) / step)
    )
    if any(is_fixed(one) and abs(one) >= 2**53 for one in (start, end)):
        x.refuse(f"an arange from {start} to {end} is not exact in float64")
    return x.emit("arange", start=start, step=step, length=length, dtype=result.dtype)


def _triangle(op: str) -> None:
    @aten(op)
    def translate(x: CallContext, self: Value, diagonal: int) -> Value:
        return x.emit(op, self, diagonal=clamped_diagonal(diagonal))


_triangle("tril")
_triangle("triu")
