"""Sorting, and the first few of a sorted axis: positions by one op, values read at these positions."""

from __future__ import annotations

import math

from engine import dtypes
from engine.exporter.context import CallContext
from engine.exporter.handlers import aten
from engine.graph import Value


def _first(x: CallContext, value: Value, count: int | None, dim: int, descending: bool) -> list[Value]:
    """[values, positions] of the first `count` along `dim` in order, or of all. Equal elements keep their order."""
    shape, line = value.shape, x.lifted(value)
    axis = x.axis(dim, len(shape))
    requested = line.shape[axis] if count is None else count
    places = x.emit("argsort", line, axis=axis, count=requested, descending=descending)
    values = x.emit("gather", line, places, axis=axis)
    if shape:
        return [values, places]
    return [x.reshape(values, x.result.shape), x.reshape(places, x.result.shape)]


@aten("sort", "sort.stable", harmless={"stable": "a stable order is one of those that False allows"})
def sort(x: CallContext, self: Value, dim: int, descending: bool) -> list[Value]:
    return _first(x, self, None, dim, descending)


@aten("topk", harmless={"sorted": "the sorted order is one of those that False allows"})
def topk(x: CallContext, self: Value, k: int, dim: int, largest: bool) -> list[Value]:
    return _first(x, self, k, dim, largest)


@aten("kthvalue")
def kthvalue(x: CallContext, self: Value, k: int, dim: int, keepdim: bool) -> list[Value]:
    axis, rank = x.axis(dim, len(self.shape)), len(self.shape)
    parts = [x.slice(part, axis, k - 1, k) if rank else part for part in _first(x, self, k, dim, False)]
    return parts if keepdim else [x.reshape(part, x.result.shape) for part in parts]


def _middle(x: CallContext, value: Value, axis: int) -> list[Value]:
    """[value, position] of the lower median along `axis`, which stays; of the first NaN where there is one."""
    size = value.shape[axis]
    lower = (size - 1) // 2
    order = x.emit("argsort", value, axis=axis, count=lower + 1, descending=False)
    places = x.slice(order, axis, lower, lower + 1)
    if dtypes.dtype(value.dtype).kind == "float":
        largest = x.emit("argmax", value, axis=axis, keepdims=True)  # NaN wins
        is_nan = x.emit("isnan", x.emit("gather", value, largest, axis=axis))
        places = x.emit("where", is_nan, largest, places)
    return [x.emit("gather", value, places, axis=axis), places]


@aten("median.dim")
def median_along(x: CallContext, self: Value, dim: int, keepdim: bool) -> list[Value]:
    parts = _middle(x, x.lifted(self), x.axis(dim, len(self.shape)))
    return parts if keepdim and self.shape else [x.reshape(part, x.result.shape) for part in parts]


@aten("median")
def median(x: CallContext, self: Value) -> Value:
    return x.reshape(_middle(x, x.reshape(self, (math.prod(self.shape),)), 0)[0], ())
