"""Pooling over one to three spatial axes: the largest element or the mean of each window.

x is [N, C, *S], or [N, *S, C] with `channels_last`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.ops.check import cast_array, result, rounded, widened, wrong
from engine.ops.conv import Ints, bounded_reach, channels_back, channels_first, extent, fitted, image, spatial, strided
from engine.ops.rounding import EXACT
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare


def _places(op: str, size: int, reach: int, stride: int, low: int, high: int, ceil_mode: bool) -> int:
    """How many windows there are along an axis. With `ceil_mode` one more may reach past the padding's end, if it
    begins before the upper padding does: torch's rule. It may be the only one.
    """
    if not ceil_mode:
        return fitted(op, size, low, high, reach) // stride + 1
    count = -((reach - size - low - high) // stride) + 1
    if count < 1:
        fitted(op, size, low, high, reach)  # refuses
    return count - 1 if (count - 1) * stride >= size + low else count


def _infer(op: str, inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, a = channels_first(image(op, inputs), attributes["channels_last"]), attributes
    axes = len(x.shape) - 2
    dilation = a.get("dilation", (1,) * axes)
    spatial(op, {**a, "dilation": dilation}, {"kernel": 1, "stride": 1, "low": 0, "high": 0, "dilation": 1}, axes)
    reaches = [extent(k, d) for k, d in zip(a["kernel"], dilation, strict=True)]
    if any(pad >= reach for pad, reach in zip((*a["low"], *a["high"]), reaches * 2, strict=True)):
        raise wrong(op, f"less padding than the window's {reaches}", (a["low"], a["high"]))
    if 0 in x.shape[2:]:
        raise wrong(op, "an input with elements along each spatial axis", x)
    bounded_reach(op, x, x.shape[1], x.shape[2:], a["low"], a["high"], reaches, a["stride"], dilation)
    rows = zip(x.shape[2:], reaches, a["stride"], a["low"], a["high"], strict=True)
    out = [_places(op, *row, a["ceil_mode"]) for row in rows]
    shape = (*x.shape[:2], *out)
    return result(op, x.dtype, channels_back(shape, a["channels_last"]))


def _infer_max_pool(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    return _infer("max_pool", inputs, attributes)


def _infer_avg_pool(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    if attributes["divisor"] < 0:
        raise wrong("avg_pool", "a divisor of 1 or more, or 0 for the window's size", attributes["divisor"])
    return _infer("avg_pool", inputs, attributes)


def _windows(
    x: np.ndarray, kernel: Ints, dilation: Ints, stride: Ints, low: Ints, out: Sequence[int], fill: float
) -> list[np.ndarray]:
    """For each tap of the window its element of all windows, `fill` outside of x."""
    rows = zip(x.shape[2:], kernel, dilation, stride, low, out, strict=True)
    behind = [max(0, (n - 1) * step + extent(k, d) - begin - size) for size, k, d, step, begin, n in rows]
    wide = np.pad(x, [(0, 0), (0, 0), *zip(low, behind, strict=True)], constant_values=fill)
    starts = ([t * d for t, d in zip(tap, dilation, strict=True)] for tap in np.ndindex(*kernel))
    return [strided(wide, start, stride, out) for start in starts]


def _sizes(op: str, x: np.ndarray, reaches: Sequence[int], stride: Ints, low: Ints, high: Ints, ceil: bool) -> Ints:
    rows = zip(x.shape[2:], reaches, stride, low, high, strict=True)
    return tuple(_places(op, *row, ceil) for row in rows)


def _max_pool_reference(
    x: np.ndarray,
    kernel: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    ceil_mode: bool,
    channels_last: bool,
) -> np.ndarray:
    x = np.moveaxis(x, -1, 1) if channels_last else x
    reaches = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
    out = _sizes("max_pool", x, reaches, stride, low, high, ceil_mode)

    def largest(wide: np.ndarray) -> np.ndarray:
        taps = _windows(wide, kernel, dilation, stride, low, out, -np.inf)
        return np.asarray(np.maximum.reduce(taps))

    y = rounded(largest, x)
    return np.moveaxis(y, 1, -1) if channels_last else y


def _avg_pool_reference(
    x: np.ndarray,
    kernel: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    ceil_mode: bool,
    count_padding: bool,
    divisor: int,
    channels_last: bool,
) -> np.ndarray:
    x = np.moveaxis(x, -1, 1) if channels_last else x
    axes = len(kernel)
    out = _sizes("avg_pool", x, kernel, stride, low, high, ceil_mode)
    with np.errstate(all="ignore"):
        sums = np.add.reduce(_windows(widened(x), kernel, (1,) * axes, stride, low, out, 0.0))
        counts = np.ones(())
        for size, k, step, begin, end, n in zip(x.shape[2:], kernel, stride, low, high, out, strict=True):
            first = np.arange(n) * step - begin
            last = np.minimum(first + k, size + end)
            along = last - first if count_padding else np.minimum(last, size) - np.maximum(first, 0)
            counts = np.multiply.outer(counts, along)
        y = cast_array(sums / (divisor or counts), x.dtype)
        return np.moveaxis(y, 1, -1) if channels_last else y


def _flops(_inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    """One operation a tap: a comparison, or an addition (the division in place of the first)."""
    return outputs[0].size * math.prod(attributes["kernel"])


_WINDOW = {
    "kernel": Attribute("ints"),
    "stride": Attribute("ints"),
    "low": Attribute("ints"),
    "high": Attribute("ints"),
    "channels_last": Attribute("bool", False),
}
_CEIL = "with ceil_mode a last window may reach past the padding"

declare(
    Op(
        "max_pool",
        "pool",
        ("x",),
        _infer_max_pool,
        _max_pool_reference,
        {**_WINDOW, "dilation": Attribute("ints"), "ceil_mode": Attribute("bool", False)},
        flops=_flops,
        rounding=EXACT,
        doc=f"the largest element of each window, padding left out; NaN wins; {_CEIL}",
    )
)
declare(
    Op(
        "avg_pool",
        "pool",
        ("x",),
        _infer_avg_pool,
        _avg_pool_reference,
        {
            **_WINDOW,
            "ceil_mode": Attribute("bool", False),
            "count_padding": Attribute("bool", True),
            "divisor": Attribute("int", 0),
        },
        flops=_flops,
        doc="the sum of each window over `divisor`, or where that is 0 over its number of elements, those of the "
        f"padding counted if count_padding; {_CEIL}, which never counts",
    )
)
