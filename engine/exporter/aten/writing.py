"""Calls that write at positions given by integers or by a mask: scatter and its reductions, index_put, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine import dtypes
from engine.exporter.aten.indexing import positions
from engine.exporter.context import CallContext, Operand
from engine.exporter.handlers import aten
from engine.graph import Value

# --- along one axis ---------------------------------------------------------------------------------------------

REDUCE = {"add": "sum", "multiply": "prod"}  # names of the older calls


def _scattered(x: CallContext, target: Value, dim: int, index: Value, source: Operand, reduce: str) -> Value:
    """Rank 0 stands for a vector of one element; a number is written to every position.

    The op adds truth values only: the largest, the smallest and the product of some are those of the integers 0 and 1.
    """
    if target.dtype == "bool" and reduce in ("prod", "amax", "amin"):
        numbers = x.cast(x.cast(source, "bool"), "uint8") if isinstance(source, Value) else int(bool(source))
        return x.cast(_scattered(x, x.cast(target, "uint8"), dim, index, numbers, reduce), "bool")
    into, places = x.lifted(target), x.lifted(positions(x, index))
    given = x.cast(source, into.dtype)
    given = x.lifted(given) if isinstance(source, Value) else x.expand(given, places.shape)
    if len(places.shape) != len(into.shape) and 0 in places.shape:
        return target  # torch lets an index without elements have any rank
    y = x.emit("scatter", into, places, given, axis=x.axis(dim, len(into.shape)), reduce=reduce)
    return x.reshape(y, target.shape)


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", renamed={"src": "value"})
def scatter(x: CallContext, self: Value, dim: int, index: Value, value: Operand, reduce: str = "none") -> Value:
    return _scattered(x, self, dim, index, value, REDUCE.get(reduce, reduce))


@aten("scatter_add")
def scatter_add(x: CallContext, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(x, self, dim, index, src, "sum")


def _neutral(reduce: str, dtype: str) -> Operand:
    """What a reduction starts from where the element that is there does not count."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype == "bool":
        return reduce == "amin"
    if dtypes.dtype(dtype).kind == "float":
        return -math.inf if reduce == "amax" else math.inf
    limits = np.iinfo(dtypes.dtype(dtype).numpy)
    return int(limits.min if reduce == "amax" else limits.max)


@aten("scatter_reduce.two")
def scatter_reduce(
    x: CallContext, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool
) -> Value:
    start = self if include_self else _scattered(x, self, dim, index, _neutral(reduce, self.dtype), "none")
    y = _scattered(x, start, dim, index, src, "sum" if reduce == "mean" else reduce)
    return _divided(x, y, dim, index, include_self) if reduce == "mean" else y


@aten("index_reduce")
def index_reduce(
    x: CallContext, self: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool
) -> Value:
    """A position for each slice of the source."""
    source, rank = x.lifted(source), max(len(self.shape), 1)
    axis = x.axis(dim, rank)
    column = [source.shape[axis] if a == axis else 1 for a in range(rank)]
    places = x.expand(x.reshape(positions(x, index), column), source.shape)
    return scatter_reduce(x, self, axis, places, source, reduce, include_self)


def _divided(x: CallContext, total: Value, dim: int, index: Value, include_self: bool) -> Value:
    """Each sum by the number of its terms; what nothing was written to stays. Integers round down, as torch does."""
    ones = x.fill(1, total.type._replace(dtype="int64"))
    start = ones if include_self else x.fill(0, ones.type)
    terms = x.emit("maximum", _scattered(x, start, dim, index, 1, "sum"), ones)
    is_float = dtypes.dtype(total.dtype).kind == "float"
    return x.emit("div" if is_float else "floor_div", total, x.cast(terms, total.dtype))


@aten("one_hot")
def one_hot(x: CallContext, self: Value, num_classes: int) -> Value:
    """A class outside of [0, num_classes) is an error at run time."""
    if num_classes < 0:
        x.refuse("without num_classes the result's shape depends on the values of tensors")
    places = x.reshape(positions(x, self), (*self.shape, 1))
    return _scattered(x, x.fill(0, x.result), -1, places, 1, "none")


# --- at any axes, or by a mask ----------------------------------------------------------------------------------


@aten("index_put", "_unsafe_index_put")
def index_put(x: CallContext, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool) -> Value:
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(index.dtype in ("bool", "uint8") for index in given.values()):
        return _masked(x, self, given, values, accumulate)
    places = [positions(x, index) for index in given.values()]
    return x.emit("index_put", self, values, *places, axes=tuple(given), accumulate=accumulate)


def _masked(x: CallContext, target: Value, given: dict[int, Value], values: Value, accumulate: bool) -> Value:
    """A choice, where the values are the same for every place that one mask selects."""
    ((axis, mask), *others) = given.items()
    behind = len(target.shape) - axis - len(mask.shape)
    alike = len(values.shape) <= behind or math.prod(values.shape) == 1
    if others or not alike:
        x.refuse(f"writing {values.type} by a mask: which value goes where depends on the values of tensors; use where")
    chosen = x.reshape(x.cast(mask, "bool"), (*mask.shape, *[1] * behind))
    value = values if len(values.shape) <= behind else x.reshape(values, ())
    return x.emit("where", chosen, x.emit("add", target, value) if accumulate else value, target)
