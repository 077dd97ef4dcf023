"""Calls that make tensors out of numbers, and the triangles of a matrix."""

from __future__ import annotations

import math

from engine import dtypes
from engine.exporter.context import CallContext, Number
from engine.exporter.registry import FROM_META, aten
from engine.graph import Value
from engine.ops.create import clamped_diagonal
from engine.sizes import Size, whole

_DTYPE = {"dtype": FROM_META}
_LIKE = {"dtype": FROM_META, "self": "only its shape and element type count; torch's result has them"}
_SIZED = {"dtype": FROM_META, "size": "torch's result has this shape", "self": "only its element type counts"}


def _without(reasons: dict[str, str], *names: str) -> dict[str, str]:
    return {name: reason for name, reason in reasons.items() if name not in names}


def _constant(number: int, sized: tuple[str, ...], like: tuple[str, ...], new: tuple[str, ...]) -> None:
    def translate(x: CallContext) -> Value:
        return x.fill(number, x.result)

    aten(*sized, harmless=_without(_SIZED, "self"))(translate)
    aten(*like, harmless=_LIKE)(translate)
    aten(*new, harmless=_SIZED)(translate)


_constant(0, ("zeros",), ("zeros_like",), ("new_zeros",))
_constant(1, ("ones",), ("ones_like",), ("new_ones",))


@aten("zero", harmless={"self": _LIKE["self"]})
def zero(x: CallContext) -> Value:
    return x.fill(0, x.result)


def _filled(x: CallContext, fill_value: Number) -> Value:
    return x.fill(fill_value, x.result)


aten("full", harmless=_without(_SIZED, "self"))(_filled)
aten("full_like", harmless=_LIKE)(_filled)
aten("new_full", harmless=_SIZED)(_filled)


@aten("scalar_tensor", harmless=_DTYPE)
def scalar_tensor(x: CallContext, s: Number) -> Value:
    return x.scalar(s, x.result.dtype)


def _progression(x: CallContext, start: Number, end: Number, step: Number) -> Value:
    """start, start + step, ... before end. torch counts the elements in float64, or exactly for integers."""
    result = x.result
    if dtypes.dtype(result.dtype).kind == "int":
        start, end, step = whole(start), whole(end), whole(step)
    length = (
        -((start - end) // step)
        if all(isinstance(number, int | Size) for number in (start, end, step))
        else math.ceil((end - start) / step)
    )
    if abs(start) >= 2**53 or abs(end) >= 2**53:
        x.refuse(f"an arange from {start} to {end} is not exact in float64")
    return x.emit("arange", start=float(start), step=float(step), length=length, dtype=result.dtype)


@aten("arange", harmless=_DTYPE)
def arange(x: CallContext, end: Number) -> Value:
    return _progression(x, 0, end, 1)


@aten("arange.start", harmless=_DTYPE)
def arange_start(x: CallContext, start: Number, end: Number) -> Value:
    return _progression(x, start, end, 1)


@aten("arange.start_step", harmless=_DTYPE)
def arange_start_step(x: CallContext, start: Number, end: Number, step: Number) -> Value:
    return _progression(x, start, end, step)


@aten("tril")
def tril(x: CallContext, self: Value, diagonal: int) -> Value:
    return x.emit("tril", self, diagonal=clamped_diagonal(diagonal))


@aten("triu")
def triu(x: CallContext, self: Value, diagonal: int) -> Value:
    return x.emit("triu", self, diagonal=clamped_diagonal(diagonal))
