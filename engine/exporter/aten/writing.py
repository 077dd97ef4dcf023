"""Calls that write at positions given by integers or by a mask: scatter and its reductions, index_put, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine import dtypes
from engine.exporter.aten.indexing import positions
from engine.exporter.context import CallContext, Missing, Number, Operand
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


_MAXIMUM = 2


@aten("histc")
def histc(x: CallContext, self: Value, bins: int, min: Number, max: Number) -> Value:
    """How many elements each of the equal bins from `min` to `max` has, `max` in the last one."""
    if min >= max:
        x.refuse("its bounds are the least and the largest element; give min and max")
    value, dtype = x.reshape(self, (math.prod(self.shape),)), self.dtype
    low, high = x.scalar(min, dtype), x.scalar(max, dtype)
    share = x.emit("mul", x.emit("sub", value, low), x.scalar(bins, dtype))
    place = x.cast(x.emit("div", share, x.emit("sub", high, low)), "int64")
    place = x.emit("add", x.emit("minimum", place, x.scalar(bins - 1, "int64")), x.scalar(1, "int64"))
    is_inside = x.emit("logical_and", x.emit("ge", value, low), x.emit("le", value, high))
    place = x.emit("where", is_inside, place, x.scalar(0, "int64"))  # 0: in no bin
    zeros = x.expand(x.scalar(0, "int64"), (bins + 1,))
    return x.cast(x.slice(_scattered(x, zeros, 0, place, 1, "sum"), 0, 1, bins + 1), self.dtype)


@aten(
    "_embedding_bag_forward_only",
    "_embedding_bag",
    harmless=dict.fromkeys(("scale_grad_by_freq", "sparse"), "concerns gradients"),
)
def embedding_bag(
    x: CallContext,
    weight: Value,
    indices: Value,
    offsets: Value,
    mode: int,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int,
) -> Value | list[Value | Missing]:
    """The sum, mean or maximum of the rows from each offset on to the next one; zeros where there are none."""
    length, (bags, width) = indices.shape[0], x.result.shape
    is_end_ignored = include_last_offset and mode == _MAXIMUM  # of the last bag, as torch does
    starts = x.slice(offsets, 0, 0, bags) if is_end_ignored else offsets
    begun = _scattered(x, x.expand(x.scalar(0, "int64"), (length + 1,)), 0, starts, 1, "sum")
    bag = x.emit("sub", x.slice(x.emit("cumsum", begun, axis=0), 0, 0, length), x.scalar(1, "int64"))
    kept = x.emit("ne", indices, x.scalar(padding_idx, indices.dtype))
    bag = x.emit("where", kept, bag, x.scalar(bags, "int64"))  # one more, which nobody reads
    rows = x.emit("embedding", weight, positions(x, indices))
    if per_sample_weights is not None:
        rows = x.emit("mul", rows, x.reshape(per_sample_weights, (length, 1)))
    zeros = x.expand(x.scalar(0, weight.dtype), (bags + 1, width))
    bag = x.expand(x.reshape(bag, (length, 1)), rows.shape)
    y = scatter_reduce(x, zeros, 0, bag, rows, ("sum", "mean", "amax")[mode], include_self=False)
    return x.alone(x.slice(y, 0, 0, bags), "only the reduced rows are computed")


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
