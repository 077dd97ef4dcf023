"""What makes an axis longer, shorter or wider: padding, and weighted sums of elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.ops.check import (
    ANY,
    FLOATS,
    INDICES,
    axis_of,
    bounded,
    cast_array,
    of_dtype,
    of_rank,
    of_shape,
    present,
    result,
    widened,
    wrong,
)
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
