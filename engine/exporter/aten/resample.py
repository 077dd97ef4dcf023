"""Padding, and interpolation: where torch reads for each element of the result, worked out while exporting.

Coordinates are computed in the types in which torch computes them: at the border between two elements another rounding
would choose the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine import dtypes
from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import aten
from engine.graph import Value
from engine.ops import MAX_RANK

Step = tuple[int, np.ndarray, np.ndarray]  # axis, which elements [M, taps] (-1: none), how much of each

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
    for axis, taps, shares in steps:
        y = x.emit("resample", y, x.constant(taps), x.constant(shares.astype(wide)), axis=axis)
    return x.cast(y, dtype)


def _scales(
    x: CallContext, value: Value, factors: Sequence[float | None] | None, real: Any
) -> list[tuple[int, int, int, Any]]:
    """(axis, size, requested size, elements a step) of each spatial axis; the step is from the factor if given."""
    axes = len(value.shape) - 2
    rows = []
    for axis, factor in enumerate(factors or [None] * axes, 2):
        size, requested = int(value.shape[axis]), int(x.result.shape[axis])  # the weights are computed for these alone
        step = real(1.0 / factor) if factor is not None and factor > 0 else real(size) / real(requested)
        rows.append((axis, size, requested, step))
    return rows


def _nearest(x: CallContext, value: Value, factors: Sequence[float | None] | None, shift: float) -> Value:
    """Elements repeated where all axes grow by whole numbers, which are views and one copy; else selected."""
    chosen = {}
    for axis, size, requested, step in _scales(x, value, factors, np.float32):
        steps = (np.arange(requested, dtype=np.float32) + np.float32(shift)) * step
        places = np.minimum(np.floor(steps).astype(np.int64), size - 1)
        if requested == size and not shift:
            places = np.arange(size)
        elif requested == 2 * size and not shift:
            places = np.arange(requested) // 2
        chosen[axis] = places
    repeats = {axis: _repeats(places, value.shape[axis]) for axis, places in chosen.items()}
    if all(repeats.values()) and len(value.shape) + len(repeats) <= MAX_RANK:
        return _repeated(x, value, repeats)
    for axis, places in chosen.items():
        value = x.emit("index_select", value, x.constant(places), axis=axis)
    return value


def _repeats(places: np.ndarray, size: int) -> int:
    """How often each of `size` elements is taken in turn; 0 where that is not one number."""
    times = len(places) // size if size else 0
    return times if np.array_equal(places, np.repeat(np.arange(size), times)) else 0


def _repeated(x: CallContext, value: Value, repeats: dict[int, int]) -> Value:
    apart: list[int] = []
    wide: list[int] = []
    for axis, size in enumerate(value.shape):
        split = repeats.get(axis, 1) != 1
        apart += [size, 1] if split else [size]
        wide += [size, repeats[axis]] if split else [size]
    return x.reshape(x.expand(x.reshape(value, apart), wide), x.result.shape)


def _sources(size: int, requested: int, step: Any, *, align: bool, real: Any) -> np.ndarray:
    """Where each element of the result lies among those of the input."""
    places = np.arange(requested).astype(real)
    if align:
        return np.asarray(places * (real(size - 1) / real(requested - 1) if requested > 1 else real(0)))
    return np.asarray(step * (places + real(0.5)) - real(0.5))


def _linear_step(size: int, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The elements on either side, by their distance."""
    at = np.maximum(sources, 0)
    first = np.minimum(np.floor(at).astype(np.int64), size - 1)
    behind = np.clip(at - first, 0, 1).astype(sources.dtype)
    return np.stack([first, np.minimum(first + 1, size - 1)], 1), np.stack([1 - behind, behind], 1)


def _cubic(distance: np.ndarray, a: float = -0.75) -> np.ndarray:
    """Keys's cubic (1981); `a` is its free parameter."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _cubic_step(size: int, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two elements on either side, by the cubic."""
    first = np.minimum(np.floor(sources).astype(np.int64), size - 1)
    t = np.clip(sources - first, 0, 1).astype(sources.dtype)
    weight = _cubic(np.abs(t[:, None] - np.arange(-1, 3)))
    return np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1), weight


def _smooth_step(size: int, requested: int, step: float, *, cubic: bool) -> tuple[np.ndarray, np.ndarray]:
    """With antialiasing: of a picture that shrinks, all elements that an element of the result covers, and more."""
    centre, stretch = step * (np.arange(requested) + 0.5), max(step, 1.0)
    reach = stretch * (2 if cubic else 1)
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + reach + 0.5).astype(np.int64), size)
    taps = first[:, None] + np.arange((end - first).max())
    distance = np.abs(taps + 0.5 - centre[:, None]) / stretch
    weight = np.where(taps < end[:, None], _cubic(distance, -0.5) if cubic else np.maximum(1 - distance, 0), 0)
    return np.where(taps < end[:, None], taps, -1), weight / weight.sum(1, keepdims=True)


def _interpolated(
    x: CallContext,
    value: Value,
    factors: Sequence[float | None] | None,
    *,
    align: bool,
    cubic: bool = False,
    smooth: bool = False,
) -> Value:
    real = np.float64 if value.dtype == "float64" else np.float32
    steps: list[Step] = []
    for axis, size, requested, step in _scales(x, value, factors, real):
        if smooth:
            step = step if not align else (size - 1) / (requested - 1) if requested > 1 else 0.0
            steps.append((axis, *_smooth_step(size, requested, float(step), cubic=cubic)))
            continue
        if size == requested and not cubic:
            continue  # each element is its own source, whatever the factor says
        sources = _sources(size, requested, step, align=align, real=real)
        steps.append((axis, *(_cubic_step if cubic else _linear_step)(size, sources)))
    if steps and dtypes.dtype(value.dtype).kind != "float":
        x.refuse(
            f"torch interpolates {value.dtype} by weights that it rounds in its own way; cast the tensor to a float"
        )
    # As torch does; and of a picture that grows, rows are dearer than columns: fewer of them.
    return resampled(x, value, steps[::-1])


_SIZE = "torch's result has this shape"
_VEC = {"output_size": _SIZE}


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", harmless=_VEC)
def nearest_vec(x: CallContext, input: Value, scale_factors: Sequence[float] | None) -> Value:
    return _nearest(x, input, scale_factors, 0.0)


@aten("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec", harmless=_VEC)
def nearest_exact_vec(x: CallContext, input: Value, scale_factors: Sequence[float] | None) -> Value:
    return _nearest(x, input, scale_factors, 0.5)


@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", harmless=_VEC)
def linear_vec(x: CallContext, input: Value, align_corners: bool, scale_factors: Sequence[float] | None) -> Value:
    return _interpolated(x, input, scale_factors, align=align_corners)


@aten("upsample_bicubic2d.vec", harmless=_VEC)
def bicubic_vec(x: CallContext, input: Value, align_corners: bool, scale_factors: Sequence[float] | None) -> Value:
    return _interpolated(x, input, scale_factors, align=align_corners, cubic=True)


@aten("upsample_nearest1d", harmless=_VEC)  # this and those below: after torch's own decompositions
def nearest1d(x: CallContext, self: Value, scales: float | None) -> Value:
    return _nearest(x, self, [scales], 0.0)


@aten("upsample_nearest2d", harmless=_VEC)
def nearest2d(x: CallContext, self: Value, scales_h: float | None, scales_w: float | None) -> Value:
    return _nearest(x, self, [scales_h, scales_w], 0.0)


@aten("upsample_bilinear2d", harmless=_VEC)
def bilinear2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], align=align_corners)


@aten("_upsample_bilinear2d_aa", harmless=_VEC)
def smooth_bilinear2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], align=align_corners, smooth=True)


@aten("_upsample_bicubic2d_aa", harmless=_VEC)
def smooth_bicubic2d(
    x: CallContext, self: Value, align_corners: bool, scales_h: float | None, scales_w: float | None
) -> Value:
    return _interpolated(x, self, [scales_h, scales_w], align=align_corners, cubic=True, smooth=True)


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
