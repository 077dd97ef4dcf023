"""Sorting, places among sorted elements, and the first few of a sorted axis: positions by one op, values read there."""

from __future__ import annotations

import math

from engine import dtypes
from engine.exporter.context import CallContext, Operand
from engine.exporter.handlers import FROM_META, aten
from engine.graph import Value
from engine.sizes import find_largest


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


# --- places among sorted elements -------------------------------------------------------------------------------


def find_places(x: CallContext, edges: Value, value: Value, *, right: bool) -> Value:
    """How many of the sorted `edges` [.., n] are below each element, or with `right` equal to it; n for NaN.

    A bisection: each step, half as long as the one before, is taken if the last edge that it would pass counts.
    """
    axis, count = len(edges.shape) - 1, edges.shape[-1]
    flat = value if axis else x.reshape(value, (math.prod(value.shape),))
    place = x.expand(x.scalar(0, "int64"), flat.shape)
    last = x.scalar(count - 1, "int64")
    for bit in reversed(range(find_largest(count).bit_length())):
        passed = x.emit("minimum", x.emit("add", place, x.scalar((1 << bit) - 1, "int64")), last)
        stays = x.emit("gt" if right else "ge", x.emit("gather", edges, passed, axis=axis), flat)
        place = x.emit("where", stays, place, x.emit("add", place, x.scalar(1 << bit, "int64")))
    return x.reshape(x.emit("minimum", place, x.scalar(count, "int64")), value.shape)


_OUT = {"out_int32": FROM_META}


@aten("bucketize.Tensor", "bucketize.Scalar", harmless=_OUT)
def bucketize(x: CallContext, self: Operand, boundaries: Value, right: bool) -> Value:
    return searchsorted(x, boundaries, self, right, None, None)


@aten("searchsorted.Tensor", "searchsorted.Scalar", harmless=_OUT)
def searchsorted(
    x: CallContext, sorted_sequence: Value, self: Operand, right: bool, side: str | None, sorter: Value | None
) -> Value:
    edges = sorted_sequence
    if sorter is not None:
        edges = x.emit("gather", edges, sorter, axis=len(edges.shape) - 1)
    dtype = x.common_dtype(edges, self)
    found = find_places(x, x.cast(edges, dtype), x.cast(self, dtype), right=right or side == "right")
    return x.cast(found, x.result.dtype)
