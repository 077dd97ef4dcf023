"""Calls that rearrange: views, permutations, slices, joins, repeats, and writes into a part of a tensor."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence

from engine.exporter.context import CallContext, Element, Number
from engine.exporter.handlers import aten
from engine.graph import Value
from engine.ops import MAX_RANK

# --- the same elements under another shape ----------------------------------------------------------------------


def _sizes(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """`shape` with its -1, if it has one, replaced by what is left of `count`."""
    known = math.prod(size for size in shape if size != -1)
    return tuple(count // known if size == -1 else size for size in shape)


@aten("view", "_unsafe_view", "reshape", renamed={"shape": "size"})
def view(x: CallContext, self: Value, size: Sequence[int]) -> Value:
    return x.reshape(self, _sizes(size, self.type.size))


@aten("view_as", "reshape_as")
def view_as(x: CallContext, self: Value, other: Value) -> Value:
    return x.reshape(self, other.shape)


@aten("flatten.using_ints")
def flatten(x: CallContext, self: Value, start_dim: int, end_dim: int) -> Value:
    rank = len(self.shape)
    first, last = x.axis(start_dim, rank), x.axis(end_dim, rank)
    return x.reshape(self, (*self.shape[:first], math.prod(self.shape[first : last + 1]), *self.shape[last + 1 :]))


@aten("unflatten.int")
def unflatten(x: CallContext, self: Value, dim: int, sizes: Sequence[int]) -> Value:
    axis = x.axis(dim, len(self.shape))
    return x.reshape(self, (*self.shape[:axis], *_sizes(sizes, self.shape[axis]), *self.shape[axis + 1 :]))


@aten("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(x: CallContext, self: Value, dim: int | Sequence[int] | None = None) -> Value:
    rank = len(self.shape)
    axes = {x.axis(one, rank) for one in (range(rank) if dim is None else _listed(dim))}
    return x.reshape(self, [size for axis, size in enumerate(self.shape) if axis not in axes or size != 1])


def _listed(dims: int | Sequence[int]) -> Sequence[int]:
    return [dims] if isinstance(dims, int) else dims


@aten("unsqueeze")
def unsqueeze(x: CallContext, self: Value, dim: int) -> Value:
    axis = x.axis(dim, len(self.shape) + 1)
    return x.reshape(self, (*self.shape[:axis], 1, *self.shape[axis:]))


# --- another order of axes --------------------------------------------------------------------------------------


@aten("transpose.int", "swapaxes", "mT", renamed={"axis0": "dim0", "axis1": "dim1"})
def transpose(x: CallContext, self: Value, dim0: int = -2, dim1: int = -1) -> Value:
    rank = len(self.shape)
    order = list(range(max(rank, 1)))
    a, b = x.axis(dim0, rank), x.axis(dim1, rank)
    order[a], order[b] = order[b], order[a]
    return x.permute(self, order) if rank else self


@aten("t", "numpy_T")
def reversed_axes(x: CallContext, self: Value) -> Value:
    """`t` is for rank 2 at most, where it is the same."""
    return x.permute(self, range(len(self.shape))[::-1])


@aten("permute")
def permute(x: CallContext, self: Value, dims: Sequence[int]) -> Value:
    return x.permute(self, [x.axis(dim, len(self.shape)) for dim in dims])


@aten("movedim.int", "movedim.intlist")
def movedim(x: CallContext, self: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    rank = len(self.shape)
    if not rank:
        return self
    pairs = zip(_listed(source), _listed(destination), strict=True)
    placed = {x.axis(to, rank): x.axis(dim, rank) for dim, to in pairs}
    rest = iter(axis for axis in range(rank) if axis not in placed.values())
    return x.permute(self, [placed[axis] if axis in placed else next(rest) for axis in range(rank)])


# --- repetition -------------------------------------------------------------------------------------------------


@aten("expand")
def expand(x: CallContext, self: Value, size: Sequence[int]) -> Value:
    kept = (*[-1] * (len(size) - len(self.shape)), *self.shape)
    return x.expand(self, [own if requested == -1 else requested for own, requested in zip(kept, size, strict=True)])


@aten("expand_as")
def expand_as(x: CallContext, self: Value, other: Value) -> Value:
    return x.expand(self, other.shape)


@aten("repeat", "tile", renamed={"dims": "repeats"})
def repeat(x: CallContext, self: Value, repeats: Sequence[int]) -> Value:
    """Every repeated axis gets one of size 1 in front of it, which is expanded and merged.

    So does one whose size is known only in a call: a comparison with 1 would restrict the program to one answer.
    """
    repeats = (*[1] * (len(self.shape) - len(repeats)), *repeats)
    value = x.reshape(self, (*[1] * (len(repeats) - len(self.shape)), *self.shape))
    apart: list[int] = []
    wide: list[int] = []
    for size, times in zip(value.shape, repeats, strict=True):
        split = not (_is_always_1(times) or _is_always_1(size))
        apart += [1, size] if split else [size]
        wide += [times, size] if split else [size * times]
    if len(wide) > MAX_RANK:
        x.refuse(f"repeating {value.type} by {list(repeats)} at once takes more than {MAX_RANK} axes")
    shape = [size * times for size, times in zip(value.shape, repeats, strict=True)]
    return x.reshape(x.expand(x.reshape(value, apart), wide), shape)


def _is_always_1(size: int) -> bool:
    return type(size) is int and size == 1


# --- parts ------------------------------------------------------------------------------------------------------


def bounds(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Python's reading of a slice's start and end, with an empty slice for start > end."""
    first, last = (_place(given, size, default) for given, default in ((start, 0), (end, size)))
    return first, max(first, last)


def _place(given: int | None, size: int, default: int) -> int:
    """`given` counted from the front and held within [0, size]."""
    if given is None:
        return default
    if type(given) is int and given >= sys.maxsize:  # how torch spells the end
        return size
    place = given + size if given < 0 else given
    if place < 0:
        return 0
    return min(place, size)


@aten("slice.Tensor")
def slice_tensor(x: CallContext, self: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    axis = x.axis(dim, len(self.shape))
    return x.slice(self, axis, *bounds(start, end, self.shape[axis]), step)


@aten("narrow")
def narrow(x: CallContext, self: Value, dim: int, start: int, length: int) -> Value:
    axis = x.axis(dim, len(self.shape))
    first = start + self.shape[axis] if start < 0 else start
    return x.slice(self, axis, first, first + length)


def _selected(x: CallContext, value: Value, axis: int, index: int) -> Value:
    part = x.slice(value, axis, index, index + 1)
    return x.reshape(part, (*value.shape[:axis], *value.shape[axis + 1 :]))


@aten("select.int")
def select(x: CallContext, self: Value, dim: int, index: int | Element) -> Value:
    axis = x.axis(dim, len(self.shape))
    if isinstance(index, Element):
        place = x.cast(index.value, "int64")
        behind = x.emit("add", place, x.scalar(self.shape[axis], "int64"))
        place = x.emit("where", x.emit("lt", place, x.scalar(0, "int64")), behind, place)
        return x.reshape(x.emit("index_select", self, x.reshape(place, (1,)), axis=axis), x.result.shape)
    return _selected(x, self, axis, index + self.shape[axis] if index < 0 else index)


@aten("unbind.int")
def unbind(x: CallContext, self: Value, dim: int) -> list[Value]:
    axis = x.axis(dim, len(self.shape))
    return [_selected(x, self, axis, index) for index in range(self.shape[axis])]


def _parts(x: CallContext, value: Value, dim: int, sizes: Sequence[int]) -> list[Value]:
    axis = x.axis(dim, len(value.shape))
    ends = itertools.accumulate(sizes)
    return [x.slice(value, axis, end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _even(size: int, each: int) -> list[int]:
    """`size` in steps of `each`, the last one shorter; one empty part where there is nothing."""
    return [min(each, size - start) for start in range(0, size, each)] if size else [0]


@aten("split.Tensor")
def split(x: CallContext, self: Value, split_size: int, dim: int) -> list[Value]:
    return _parts(x, self, dim, _even(self.shape[x.axis(dim, len(self.shape))], split_size))


@aten("split_with_sizes", "split.sizes", renamed={"split_size": "split_sizes"})
def split_with_sizes(x: CallContext, self: Value, split_sizes: Sequence[int], dim: int) -> list[Value]:
    return _parts(x, self, dim, split_sizes)


@aten("chunk")
def chunk(x: CallContext, self: Value, chunks: int, dim: int) -> list[Value]:
    """Parts of equal size, rounded up, so there may be fewer than asked for; exactly `chunks` where all are empty."""
    size = self.shape[x.axis(dim, len(self.shape))]
    return _parts(x, self, dim, _even(size, -(-size // chunks)) if size else [0] * chunks)


@aten("flip")
def flip(x: CallContext, self: Value, dims: Sequence[int]) -> Value:
    axes = sorted({x.axis(dim, len(self.shape)) for dim in dims}) if self.shape else []
    return x.emit("flip", self, axes=tuple(axes)) if axes else self


@aten("diagonal")
def diagonal(x: CallContext, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    """Over both axes as one, each element of a diagonal stands a row and one further than that before."""
    rank = len(self.shape)
    a, b = x.axis(dim1, rank), x.axis(dim2, rank)
    rest = [axis for axis in range(rank) if axis not in (a, b)]
    value = x.permute(self, [*rest, a, b])
    (*lead, rows, columns), count = value.shape, x.result.shape[-1]
    flat = x.reshape(value, (*lead, rows * columns))
    first = offset if offset >= 0 else -offset * columns
    if not count:
        return x.slice(flat, len(lead), 0, 0)
    return x.slice(flat, len(lead), first, first + (count - 1) * (columns + 1) + 1, columns + 1)


@aten("unfold")
def unfold(x: CallContext, self: Value, dimension: int, size: int, step: int) -> Value:
    """An axis of windows, which may overlap, and behind all others one of the places in a window."""
    value = x.lifted(self)
    taken = x.emit("windows", value, axis=x.axis(dimension, len(self.shape)), size=int(size), step=int(step))
    return taken if self.shape else x.reshape(taken, x.result.shape)


@aten("im2col")
def im2col(
    x: CallContext,
    self: Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The patch at each place, as a column: windows of both axes, of which every `dilation`-th element is read."""
    around = (*[0] * (len(self.shape) - 2), *padding)
    value = x.emit("pad", self, low=around, high=around, value=0.0) if any(padding) else self
    value = x.reshape(value, (math.prod(value.shape[:-2]), *value.shape[-2:]))
    for axis, (size, apart, step) in enumerate(zip(kernel_size, dilation, stride, strict=True), 1):
        value = x.emit("windows", value, axis=axis, size=(size - 1) * apart + 1, step=step)
        value = x.slice(value, axis + 2, 0, (size - 1) * apart + 1, apart)
    return x.reshape(x.permute(value, (0, 3, 4, 1, 2)), x.result.shape)


@aten("col2im")
def col2im(
    x: CallContext,
    self: Value,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The sum of patches, one axis after the other: the planes of patches that have a place of the axis in common."""
    low, high = padding, [pad + size for pad, size in zip(padding, output_size, strict=True)]
    places = [
        (end + pad - apart * (size - 1) - 1) // step + 1
        for end, pad, size, apart, step in zip(high, padding, kernel_size, dilation, stride, strict=True)
    ]
    count = math.prod(x.result.shape[:-2])
    value = x.reshape(self, (count, kernel_size[0], kernel_size[1], *places))
    value = _overlaid(x, x.permute(value, (0, 2, 1, 3, 4)), dilation[0], stride[0], high[0] + padding[0])
    value = x.permute(x.slice(value, 2, low[0], high[0]), (0, 2, 1, 3))  # [N, H, kernel, places]
    value = x.reshape(value, (*value.shape, 1))
    value = _overlaid(x, value, dilation[1], stride[1], high[1] + padding[1])
    return x.reshape(x.slice(value, 2, low[1], high[1]), x.result.shape)


def _overlaid(x: CallContext, value: Value, dilation: int, stride: int, size: int) -> Value:
    """[A, B, K, P, C] as [A, B, size, C]: element k of place p is added to element p * stride + k * dilation.

    With a dilation of 1, elements k to k + stride of all places lie side by side, and are added at once.
    """
    a, b, kernel, places, c = value.shape
    each = stride if dilation == 1 else 1
    total = None
    for k in range(0, kernel, each):
        part = x.permute(x.slice(value, 2, k, min(kernel, k + each)), (0, 1, 3, 2, 4))
        if rest := stride - part.shape[3]:
            part = x.emit("pad", part, low=(0,) * 5, high=(0, 0, 0, rest, 0), value=0.0)
        start, end = k * dilation, min(size, k * dilation + places * stride)
        part = x.slice(x.reshape(part, (a, b, places * stride, c)), 2, 0, end - start)
        if (start, end) != (0, size):
            part = x.emit("pad", part, low=(0, 0, start, 0), high=(0, 0, size - end, 0), value=0.0)
        total = part if total is None else x.emit("add", total, part)
    assert total is not None  # noqa: S101  # a kernel has elements
    return total


# --- joins ------------------------------------------------------------------------------------------------------


@aten("cat")
def cat(x: CallContext, tensors: Sequence[Value], dim: int) -> Value:
    """Vectors without elements are left out, whatever the rank of the others: so torch does for old code's sake."""
    full = [t for t in tensors if t.shape != (0,)] or list(tensors[:1])
    parts = [x.cast(t, x.result.dtype) for t in full]
    return parts[0] if len(parts) == 1 else x.emit("concat", *parts, axis=x.axis(dim, len(parts[0].shape)))


@aten("stack")
def stack(x: CallContext, tensors: Sequence[Value], dim: int) -> Value:
    parts = [unsqueeze(x, x.cast(t, x.result.dtype), dim) for t in tensors]
    return parts[0] if len(parts) == 1 else x.emit("concat", *parts, axis=x.axis(dim, len(parts[0].shape)))


@aten("roll")
def roll(x: CallContext, self: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    """Without dims the elements are rolled in row-major order."""
    if not dims:
        return x.reshape(_rolled(x, x.reshape(self, (self.type.size,)), shifts[0], 0), self.shape)
    y = self
    for shift, dim in zip(shifts, dims, strict=True):
        y = _rolled(x, y, shift, x.axis(dim, len(self.shape)))
    return y


def _rolled(x: CallContext, value: Value, shift: int, axis: int) -> Value:
    size = value.shape[axis]
    cut = -shift % size if size else 0
    if not cut:
        return value
    return x.emit("concat", x.slice(value, axis, cut, size), x.slice(value, axis, 0, cut), axis=axis)


# --- a tensor with a part replaced (what writes into views become) ----------------------------------------------


@aten("slice_scatter")
def slice_scatter(
    x: CallContext, self: Value, src: Value, dim: int, start: int | None, end: int | None, step: int
) -> Value:
    axis = x.axis(dim, len(self.shape))
    size = self.shape[axis]
    first, last = bounds(start, end, size)
    src = x.cast(src, self.dtype)
    if step == 1:
        return _joined(x, axis, x.slice(self, axis, 0, first), src, x.slice(self, axis, last, size))
    first, last, size = int(first), int(last), int(size)  # the groups are counted for these alone
    count = src.shape[axis]
    whole = min(count, (size - first) // step)  # steps that have all their elements
    lead, trail = math.prod(self.shape[:axis]), math.prod(self.shape[axis + 1 :])
    old, new = x.reshape(self, (lead, size, trail)), x.reshape(src, (lead, count, trail))
    end = first + whole * step
    kept = x.slice(x.reshape(x.slice(old, 1, first, end), (lead, whole, step, trail)), 2, 1, step)
    groups = _joined(x, 2, x.reshape(x.slice(new, 1, 0, whole), (lead, whole, 1, trail)), kept)
    parts = (x.reshape(groups, (lead, whole * step, trail)), x.slice(new, 1, whole, count))
    joined = _joined(x, 1, x.slice(old, 1, 0, first), *parts, x.slice(old, 1, end + count - whole, size))
    return x.reshape(joined, self.shape)


@aten("select_scatter")
def select_scatter(x: CallContext, self: Value, src: Value, dim: int, index: int) -> Value:
    axis = x.axis(dim, len(self.shape))
    size = self.shape[axis]
    place = index + size if index < 0 else index
    part = x.reshape(x.cast(src, self.dtype), (*self.shape[:axis], 1, *self.shape[axis + 1 :]))
    return _joined(x, axis, x.slice(self, axis, 0, place), part, x.slice(self, axis, place + 1, size))


def _joined(x: CallContext, axis: int, *parts: Value) -> Value:
    kept = [part for part in parts if part.shape[axis]] or [parts[0]]
    return kept[0] if len(kept) == 1 else x.emit("concat", *kept, axis=axis)


@aten("copy", "fill.Scalar", "fill.Tensor", renamed={"src": "value"})
def fill(x: CallContext, self: Value, value: Value | Number) -> Value:
    """Every element of `self` replaced."""
    return x.expand(x.cast(value, self.dtype), self.shape)
