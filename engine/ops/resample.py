"""What makes an axis longer, shorter or wider: padding, and weighted sums of elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine import dtypes
from engine.ops.check import (
    ANY,
    FLOATS,
    INDICES,
    axis_of,
    bounded,
    cast_array,
    of_dtype,
    of_rank,
    of_same_dtype,
    of_shape,
    present,
    result,
    widened,
    wrong,
)
from engine.ops.rounding import RESULT, Rounding
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

# Our names -> NumPy's.
_MODES: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _most(mode: str, size: int) -> int | None:
    """The widest padding that a mode has elements for; None: any."""
    return {"constant": None, "reflect": size - 1, "replicate": None if size else 0, "circular": size}[mode]


def _infer_pad(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("pad", "x", present("pad", inputs, 0, "x"), ANY)
    low, high, mode = attributes["low"], attributes["high"], attributes["mode"]
    if not len(low) == len(high) == len(x.shape) or any(n < 0 for n in (*low, *high)):
        raise wrong("pad", f"low and high of 0 or more for each axis of {x}", (low, high))
    for size, *pads in zip(x.shape, low, high, strict=True):
        most = _most(mode, size)
        if any(pads) and most is not None and max(pads) > most:
            raise wrong("pad", f"{mode} padding of {max(0, most)} at most along an axis of {size}", pads)
    return result("pad", x.dtype, [a + n + b for n, a, b in zip(x.shape, low, high, strict=True)])


def _pad_reference(x: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], mode: str, value: float) -> np.ndarray:
    if not x.ndim:
        return np.array(x)
    pads: Any = list(zip(low, high, strict=True))
    if mode == "constant":
        return np.pad(x, pads, constant_values=cast_array(np.array(value), x.dtype))
    return np.array(np.pad(x, pads, mode=_MODES[mode]))


declare(
    Op(
        "pad",
        "resample",
        ("x",),
        _infer_pad,
        _pad_reference,
        {
            "low": Attribute("ints"),
            "high": Attribute("ints"),
            "mode": Attribute("choice", "constant", tuple(_MODES)),
            "value": Attribute("float", 0.0),
        },
        doc="`low` and `high` elements before and behind each axis: `value`, or the axis reflected at its end "
        "elements, its end element again, or the axis from its other end",
    )
)


def _infer_resample(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("resample", "x", present("resample", inputs, 0, "x"), FLOATS)
    axis = axis_of("resample", attributes["axis"], x)
    index = of_dtype("resample", "index", present("resample", inputs, 1, "index"), INDICES)
    of_rank("resample", "index", index, 2, 2)
    weight = of_dtype("resample", "weight", present("resample", inputs, 2, "weight"), FLOATS)
    of_shape("resample", "weight", weight, index.shape)
    taken = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    bounded("resample", "elements that the taps read", taken, x.itemsize)
    return result("resample", x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


def _resample_reference(x: np.ndarray, index: np.ndarray, weight: np.ndarray, axis: int) -> np.ndarray:
    bad = index[(index < -1) | (index >= x.shape[axis])]
    if bad.size:
        raise IndexError(f"resample: index {bad.reshape(-1)[0]} is outside of [-1, {x.shape[axis]})")
    over = (*index.shape, *[1] * (x.ndim - axis - 1))
    absent = (index < 0).reshape(over)
    wide = widened(x)
    if not x.shape[axis]:
        return np.zeros((*x.shape[:axis], len(index), *x.shape[axis + 1 :]), x.dtype)
    with np.errstate(all="ignore"):
        parts = np.take(wide, np.maximum(index, 0), axis=axis) * widened(weight).reshape(over)
        return cast_array(np.sum(np.where(absent, 0.0, parts), axis=axis + 1), x.dtype)


def _resample_flops(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    return 2 * outputs[0].size * present("resample", inputs, 1, "index").shape[1]


declare(
    Op(
        "resample",
        "resample",
        ("x", "index", "weight"),
        _infer_resample,
        _resample_reference,
        {"axis": Attribute("axis")},
        flops=_resample_flops,
        doc="result[.., i, ..] = sum over t of weight[i, t] * x[.., index[i, t], ..] along an axis; index and weight "
        "[M, taps], weight of any float; index -1: no tap, others outside of the axis are an error",
    )
)


# --- which elements ------------------------------------------------------------------------------------------------


def _infer_taps(_inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    shape = attributes["length"], attributes["columns"]
    if any(number < 0 for number in (attributes["size"], *shape)):
        raise wrong("taps", "sizes of 0 or more", (attributes["size"], *shape))
    if attributes["dtype"] not in ("float32", "float64"):
        raise wrong("taps", "float32 or float64", attributes["dtype"])
    return result("taps", attributes["dtype"] if attributes["weights"] else "int64", shape)


def _taps_reference(
    mode: str, size: int, length: int, columns: int, step: float, align_corners: bool, dtype: str, weights: bool
) -> np.ndarray:
    """Coordinates are computed in the types in which torch does: at the border of two elements another rounding
    would choose the other one.
    """
    real = np.float32 if mode.startswith("nearest") else dtypes.dtype(dtype).numpy.type
    distance = real(step) if step else real(size) / real(max(length, 1))
    if mode == "window":
        index, weight = _find_windows(size, length)
    elif mode.startswith("smooth"):
        if align_corners:
            distance = (size - 1) / (length - 1) if length > 1 else 0.0
        index, weight = _find_smooth(size, length, float(distance), cubic=mode == "smooth_cubic")
    elif mode != "cubic" and size == length:  # each element is its own source, whatever the step says
        index, weight = np.arange(size)[:, None], np.ones((size, 1))
    elif mode.startswith("nearest"):
        index, weight = _find_nearest(size, length, distance, exact=mode == "nearest_exact")
    else:
        places = np.arange(length).astype(real)
        ratio = real(size - 1) / real(length - 1) if length > 1 else real(0)
        at = places * ratio if align_corners else distance * (places + real(0.5)) - real(0.5)
        index, weight = (_find_cubic if mode == "cubic" else _find_linear)(size, np.asarray(at))
    absent = max(columns - index.shape[1], 0)
    if weights:
        return np.pad(weight, ((0, 0), (0, absent)))[:, :columns].astype(dtypes.dtype(dtype).numpy)
    return np.pad(index, ((0, 0), (0, absent)), constant_values=-1)[:, :columns].astype(np.int64)


def _find_nearest(size: int, length: int, step: Any, *, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(length)
    if exact or length != 2 * size:
        at = (places.astype(np.float32) + np.float32(0.5 if exact else 0)) * step
        places = np.minimum(np.floor(at).astype(np.int64), size - 1)
    else:
        places = places // 2
    return places[:, None], np.ones((length, 1))


def _find_linear(size: int, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _find_cubic(size: int, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two elements on either side, by the cubic."""
    first = np.minimum(np.floor(sources).astype(np.int64), size - 1)
    t = np.clip(sources - first, 0, 1).astype(sources.dtype)
    weight = _cubic(np.abs(t[:, None] - np.arange(-1, 3)))
    return np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1), weight


def _find_smooth(size: int, length: int, step: float, *, cubic: bool) -> tuple[np.ndarray, np.ndarray]:
    """With antialiasing: of a picture that shrinks, all elements that an element of the result covers, and more."""
    centre, stretch = step * (np.arange(length) + 0.5), max(step, 1.0)
    reach = stretch * (2 if cubic else 1)
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + reach + 0.5).astype(np.int64), size)
    taps = first[:, None] + np.arange(max(end - first, default=0))
    distance = np.abs(taps + 0.5 - centre[:, None]) / stretch
    weight = np.where(taps < end[:, None], _cubic(distance, -0.5) if cubic else np.maximum(1 - distance, 0), 0)
    return np.where(taps < end[:, None], taps, -1), weight / weight.sum(1, keepdims=True)


def _find_windows(size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Elements floor(i * size / length) to ceil((i + 1) * size / length) of each window i, and their mean."""
    first = np.arange(length) * size // max(length, 1)
    last = -(-(np.arange(length) + 1) * size // max(length, 1))
    places = first[:, None] + np.arange(int(max(last - first, default=0)))
    is_inside = places < last[:, None]
    return np.where(is_inside, places, -1), is_inside / np.maximum(last - first, 1)[:, None]


declare(
    Op(
        "taps",
        "resample",
        (),
        _infer_taps,
        _taps_reference,
        {
            "mode": Attribute(
                "choice",
                choices=("nearest", "nearest_exact", "linear", "cubic", "smooth_linear", "smooth_cubic", "window"),
            ),
            "size": Attribute("int"),
            "length": Attribute("int"),
            "columns": Attribute("int"),
            "step": Attribute("float", 0.0),
            "align_corners": Attribute("bool", False),
            "dtype": Attribute("dtype", "float32"),
            "weights": Attribute("bool", False),
        },
        rounding=Rounding(("coordinates", RESULT)),
        has_kernels=False,
        doc="index or `weights` [length, columns] for `resample` of an axis of `size`: interpolation, with "
        "antialiasing (`smooth`), or the mean of a window; `step`: elements of the axis for one of the result, 0: "
        "size / length; `dtype`: of coordinates and weights. It is computed when the sizes are known",
    )
)


_TAPS = {"bilinear": 2, "nearest": 1, "bicubic": 4}


def _infer_grid_sample(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("grid_sample", "x", present("grid_sample", inputs, 0, "x"), FLOATS)
    of_rank("grid_sample", "x", x, 4, 4)
    grid = of_same_dtype("grid_sample", "grid", present("grid_sample", inputs, 1, "grid"), x.dtype)
    of_rank("grid_sample", "grid", grid, 4, 4)
    of_shape("grid_sample", "grid", grid, (x.shape[0], *grid.shape[1:3], 2))
    if 0 in x.shape[2:]:
        raise wrong("grid_sample", "images of one element or more", x)
    return result("grid_sample", x.dtype, (*x.shape[:2], *grid.shape[1:3]))


def _grid_taps(
    at: np.ndarray, size: int, mode: str, padding: str, align_corners: bool
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Which elements of an axis coordinates read: (is there one, its index, how much of it) for each tap.

    Places are computed in the type of `at`, as torch does: at the border of two elements another rounding would choose
    the other one.
    """
    length, low = (size - 1, at.dtype.type(0)) if align_corners else (size, at.dtype.type(-0.5))

    def inside(place: np.ndarray) -> np.ndarray:
        if padding == "reflection":
            away, span = np.abs(place - low), at.dtype.type(2 * length)
            rest = away - np.trunc(away / span) * span
            place = np.minimum(rest, span - rest) + low
        return place if padding == "zeros" else np.where(place > 0, np.minimum(place, size - 1), 0).astype(at.dtype)

    place = (at + 1) * at.dtype.type(length / 2) + low
    place = place if mode == "bicubic" else inside(place)
    first = np.rint(place) if mode == "nearest" else np.floor(place)
    t = widened(place - first)
    if mode == "nearest":
        taps = [(first, np.ones_like(t))]
    elif mode == "bilinear":
        taps = [(first, 1 - t), (first + 1, t)]
    else:  # Keys's cubic (1981)
        d = [t + 1, t, 1 - t, 2 - t]
        far, near = ([((3.75 - 0.75 * e) * e - 6) * e + 3 for e in d], [(1.25 * e - 2.25) * e * e + 1 for e in d])
        weights = (far[0], near[1], near[2], far[3])
        taps = [(inside(first + n - 1), weight) for n, weight in enumerate(weights)]
    found = [((p >= 0) & (p <= size - 1), p, weight) for p, weight in taps]
    return [(there, np.where(there, p, 0).astype(np.int64), weight) for there, p, weight in found]


def _grid_sample_reference(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align_corners: bool) -> np.ndarray:
    at = grid.astype(np.float64 if x.dtype == np.float64 else np.float32)
    images, wide = np.arange(len(x))[:, None, None], np.moveaxis(widened(x), 1, 3)
    with np.errstate(all="ignore"):
        columns, rows = (_grid_taps(at[..., n], x.shape[3 - n], mode, padding, align_corners) for n in (0, 1))
        y = np.zeros((*grid.shape[:3], x.shape[1]))
        for is_row, row, row_weight in rows:
            for is_column, column, weight in columns:
                value = np.where((is_row & is_column)[..., None], wide[images, row, column], 0)
                y = y + value * (row_weight * weight)[..., None]
        return cast_array(np.moveaxis(y, 3, 1), x.dtype)


declare(
    Op(
        "grid_sample",
        "resample",
        ("x", "grid"),
        _infer_grid_sample,
        _grid_sample_reference,
        {
            "mode": Attribute("choice", "bilinear", tuple(_TAPS)),
            "padding": Attribute("choice", "zeros", ("zeros", "border", "reflection")),
            "align_corners": Attribute("bool", False),
        },
        flops=lambda _inputs, outputs, attributes: 2 * outputs[0].size * _TAPS[attributes["mode"]] ** 2,
        doc="images [N, C, H, W] at the points of a grid [N, rows, columns, 2]: x before y, -1 and 1 at the ends of an "
        "axis, or at the centres of its end elements (`align_corners`); outside are zeros, the end element, or the "
        "axis reflected",
    )
)
