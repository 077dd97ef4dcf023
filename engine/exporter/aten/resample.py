"""Padding, and interpolation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from engine import dtypes
from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import aten
from engine.graph import Value
from engine.ops import MAX_RANK, TABLE
from engine.sizes import is_fixed, same

Step = tuple[int, Value, Value]  # axis, which elements [M, taps] (-1: none), how much of each

# --- padding ----------------------------------------------------------------------------------------------------


def _padded(x: CallContext, value: Value, pad: Sequence[int], mode: str, filler: Number) -> Value:
    """`pad` is (before, behind) of the last axis, then of the one before, and so on; negative numbers cut."""
    rank = len(value.shape)
    low, high = [0] * rank, [0] * rank
    for place, (before, behind) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = rank - 1 - place
        low[axis], high[axis] = max(before, 0), max(behind, 0)
        value = x.slice(value, axis, max(-before, 0), value.shape[axis] - max(-behind, 0))
    if not any((*low, *high)):
        return value
    return x.emit("pad", value, low=tuple(low), high=tuple(high), mode=mode, value=float(filler))


@aten("pad")
def pad(x: CallContext, self: Value, pad: Sequence[int], mode: str, value: float | None) -> Value:
    return _padded(x, self, pad, mode, 0.0 if value is None else value)


@aten("constant_pad_nd")
def constant_pad_nd(x: CallContext, self: Value, pad: Sequence[int], value: Number) -> Value:
    return _padded(x, self, pad, "constant", value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(x: CallContext, self: Value, padding: Sequence[int]) -> Value:
    return _padded(x, self, padding, "reflect", 0)


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(x: CallContext, self: Value, padding: Sequence[int]) -> Value:
    return _padded(x, self, padding, "replicate", 0)


# --- weighted sums along axes -----------------------------------------------------------------------------------


def resampled(x: CallContext, value: Value, steps: Sequence[Step]) -> Value:
    """One axis after the other. Half precision is rounded once, at the end."""
    dtype = value.dtype
    wide = "float64" if dtype == "float64" else "float32"
    y = x.cast(value, wide)
    for axis, index, weight in steps:
        y = x.emit("resample", y, index, weight, axis=axis)
    return x.cast(y, dtype)


def make_taps(
    x: CallContext, mode: str, size: int, length: int, factor: float | None, most: int, *, align: bool, dtype: str
) -> tuple[Value, Value]:
    """Index and weight for the op `resample` of an axis of `size` to one of `length`, `most` columns at most."""
    step = 1.0 / factor if factor is not None and factor > 0 else 0.0
    given = {"mode": mode, "size": size, "length": length, "columns": most, "step": step}
    attributes = TABLE["taps"].complete({**given, "align_corners": align, "dtype": dtype})
    both = attributes, attributes | {"weights": True}
    if not is_fixed((size, length)):
        return x.emit("taps", **both[0]), x.emit("taps", **both[1])
    places, shares = (TABLE["taps"].reference(**one) for one in both)
    used = (places >= 0).any(0)
    used[:1] = True  # also where the result is empty
    return x.constant(places[:, used]), x.constant(shares[:, used])


def _axes(
    x: CallContext, value: Value, factors: Sequence[float | None] | None
) -> Iterator[tuple[int, int, int, float | None]]:
    """(axis, size, requested size, factor if it is given) of each spatial axis."""
    axes = len(value.shape) - 2
    for axis, factor in enumerate(factors or [None] * axes, 2):
        yield axis, value.shape[axis], x.result.shape[axis], factor


def _nearest(x: CallContext, value: Value, factors: Sequence[float | None] | None, mode: str) -> Value:
    """Elements repeated where all axes grow by whole numbers, which are views and one copy; else selected."""
    rows = list(_axes(x, value, factors))
    chosen = {
        axis: make_taps(x, mode, size, requested, factor, 1, align=False, dtype="float32")[0]
        for axis, size, requested, factor in rows
    }
    repeats = {axis: _repeats(chosen[axis], size, requested, factor) for axis, size, requested, factor in rows}
    if all(repeats.values()) and len(value.shape) + len(repeats) <= MAX_RANK:
        return _repeated(x, value, repeats)
    for axis, index in chosen.items():
        value = x.emit("index_select", value, x.reshape(index, index.shape[:1]), axis=axis)
    return value


def _repeats(index: Value, size: int, requested: int, factor: float | None) -> int:
    """How often each of `size` elements is taken in turn; 0 where that is not one number. Where sizes are formulas, a
    power of 2, by which torch's coordinates are exact.
    """
    if index.is_constant:
        times = requested // size if size else 0
        return times if np.array_equal(index.elements[:, 0], np.repeat(np.arange(size), times)) else 0
    found = (times for times in (1, 2, 4, 8, 16) if factor in (None, times) and same(requested, size * times))
    return next(found, 0)


def _repeated(x: CallContext, value: Value, repeats: dict[int, int]) -> Value:
    apart: list[int] = []
    wide: list[int] = []
    for axis, size in enumerate(value.shape):
        split = repeats.get(axis, 1) != 1
        apart += [size, 1] if split else [size]
        wide += [size, repeats[axis]] if split else [size]
    return x.reshape(x.expand(x.reshape(value, apart), wide), x.result.shape)


def _interpolated(
    x: CallContext, value: Value, factors: Sequence[float | None] | None, mode: str, *, align: bool = False
) -> Value:
    wide = "float64" if value.dtype == "float64" else "float32"
    steps: list[Step] = []
    for axis, size, requested, factor in _axes(x, value, factors):
        if mode == "linear" and same(size, requested):
            continue  # each element is its own source, whatever the factor says
        if mode.startswith("smooth") and align:
            size, requested = int(size), int(requested)
        most = {"linear": 2, "cubic": 4}.get(mode) or _count_smooth(mode, size, requested, None if align else factor)
        steps.append((axis, *make_taps(x, mode, size, requested, factor, most, align=align, dtype=wide)))
    if steps and dtypes.dtype(value.dtype).kind != "float":
        x.refuse(
            f"torch interpolates {value.dtype} by weights that it rounds in its own way; cast the tensor to a float"
        )
    # As torch does; and of a picture that grows, rows are dearer than columns: fewer of them.
    return resampled(x, value, steps[::-1])


def _count_smooth(mode: str, size: int, requested: int, factor: float | None) -> int:
    """The most elements that one of the result covers, with antialiasing."""
    stretch = size // requested + 1 if factor is None else math.ceil(max(1 / factor, 1))
    return (4 if mode == "smooth_cubic" else 2) * stretch + 2


_SIZE = "torch's result has this shape"
_VEC = {"output_size": _SIZE}


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", harmless=_VEC)
def nearest_vec(x: CallContext, input: Value, scale_factors: Sequence[float] | None) -> Value:
    return _nearest(x, input, scale_factors, "nearest")


@aten("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec", harmless=_VEC)
def nearest_exact_vec(x: CallContext, input: Value, scale_factors: Sequence[float] | None) -> Value:
    return _nearest(x, input, scale_factors, "nearest_exact")


@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", harmless=_VEC)
def linear_vec(x: CallContext, input: Value, align_corners: bool, scale_factors: Sequence[float] | None) -> Value:
    return _interpolated(x, input, scale_factors, "linear", align=align_corners)


@aten("upsample_bicubic2d.vec", harmless=_VEC)
def bicubic_vec(x: CallContext, input: Value, align_corners: bool, scale_factors: Sequence[float] | None) -> Value:
    return _interpolated(x, input, scale_factors, "cubic", align=align_corners)


@aten("upsample_nearest1d", harmless=_VEC)  # this and those below: after torch's own decompositions
def nearest1d(x: CallContext, self: Value, scales: float | None) -> Value:
    return _nearest(x, self, [scales], "nearest")


@aten("upsample_nearest2d", harmless=_VEC)
def nearest2d(x: CallContext, self: Value, scales_h: float | None, scales_w: float | None) -> Value:
    return _nearest(x, self, [scales_h, scales_w], "nearest")


@aten("upsample_bilinear2d", harmless=_VEC)
def bilinear2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], "linear", align=align_corners)


@aten("_upsample_bilinear2d_aa", harmless=_VEC)
def smooth_bilinear2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], "smooth_linear", align=align_corners)


@aten("_upsample_bicubic2d_aa", harmless=_VEC)
def smooth_bicubic2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], "smooth_cubic", align=align_corners)


@aten("grid_sampler_2d")
def grid_sampler_2d(
    x: CallContext, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return x.emit("grid_sample", input, grid, mode=mode, padding=padding, align_corners=align_corners)


@aten("affine_grid_generator")
def affine_grid_generator(x: CallContext, theta: Value, size: Sequence[int], align_corners: bool) -> Value:
    """The points of the result's image, of which the last coordinate is 1, times `theta`."""
    if dtypes.dtype(theta.dtype).kind != "float":
        x.refuse(f"torch rounds the coordinates of a map of {theta.dtype}; cast it to a float")
    sizes = [int(n) for n in size[2:]]
    ends = [1 if align_corners else 1 - 1 / n for n in sizes]
    axes = [np.linspace(-end, end, n) if n > 1 else np.zeros(1) for end, n in zip(ends, sizes, strict=True)]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    wide = "float64" if theta.dtype == "float64" else "float32"
    base = x.constant(points.reshape(-1, len(sizes) + 1).astype(wide))
    y = x.emit("matmul", base, x.cast(theta, wide), transpose_b=True)
    return x.reshape(x.cast(y, theta.dtype), x.result.shape)
