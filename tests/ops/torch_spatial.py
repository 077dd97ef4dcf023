"""What torch calls the ops over spatial axes. Its own calls pad both ends of an axis alike: for others pad first."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional


def activated(name: str, x: torch.Tensor) -> torch.Tensor:
    return {
        "none": lambda: x,
        "relu": lambda: functional.relu(x),
        "relu6": lambda: functional.relu6(x),
        "gelu": lambda: functional.gelu(x),
        "gelu_tanh": lambda: functional.gelu(x, approximate="tanh"),
        "silu": lambda: functional.silu(x),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
    }[name]()


def _of_rank(name: str, x: torch.Tensor) -> Any:
    return getattr(functional, f"{name}{x.ndim - 2}d")


def _padded(x: torch.Tensor, low: tuple[int, ...], high: tuple[int, ...], value: float = 0.0) -> torch.Tensor:
    return functional.pad(x, [n for pair in zip(low[::-1], high[::-1], strict=True) for n in pair], value=value)


def _moved(function: Any) -> Any:
    """`function` of images with their channels on axis 1 or, if told so, on the last axis of each."""

    def moved(*operands, channels_last, **how):
        if not channels_last:
            return function(*operands, **how)
        # The weight and the bias, which come second and third, are no images.
        first = [t.movedim(-1, 1) if n in (0, 3) and t is not None else t for n, t in enumerate(operands)]
        return function(*first, **how).movedim(1, -1)

    return moved


@_moved
def _conv(x, weight, bias, residual, *, stride, low, high, dilation, groups, activation, compute="element"):
    assert compute == "element"  # test_arithmetic.py has the others
    y = _of_rank("conv", x)(_padded(x, low, high), weight, bias, stride, 0, dilation, groups)
    return activated(activation, y if residual is None else y + residual)


@_moved
def _conv_transpose(x, weight, bias, residual, *, stride, low, high, dilation, groups, activation):
    """torch's output_padding appends elements that only the bias reaches, as a negative `high` does."""
    y = _of_rank("conv_transpose", x)(x, weight, None, stride, 0, 0, groups, dilation)
    y = _padded(y, tuple(-n for n in low), tuple(-n for n in high))
    y = y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2))
    return activated(activation, y if residual is None else y + residual)


@_moved
def _max_pool(x, kernel, stride, low, high, dilation, ceil_mode):
    if low == high:
        return _of_rank("max_pool", x)(x, kernel, stride, low, dilation, ceil_mode)
    assert not ceil_mode
    return _of_rank("max_pool", x)(_padded(x, low, high, -torch.inf), kernel, stride, 0, dilation)


@_moved
def _avg_pool(x, kernel, stride, low, high, ceil_mode, count_padding, divisor):
    pool = _of_rank("avg_pool", x)
    if low == high:
        override = {"divisor_override": divisor} if divisor else {}
        return pool(x, kernel, stride, low, ceil_mode, count_padding, **override)
    assert not ceil_mode
    assert not divisor
    y = pool(_padded(x, low, high), kernel, stride, 0)
    return y if count_padding else y / pool(_padded(torch.ones_like(x), low, high), kernel, stride, 0)


def _pad(x, low, high, mode, value):
    if mode == "constant":
        return _padded(x, low, high, value)
    for axis, pads in enumerate(zip(low, high, strict=True)):
        if any(pads):  # torch pads a few axes of tensors of a few ranks: one axis is always among them
            lines = x.movedim(axis, -1)
            rows = math.prod(lines.shape[:-1])
            if rows:  # which torch insists on
                wide = functional.pad(lines.reshape(1, rows, -1).double(), pads, mode=mode)
            else:
                wide = torch.empty(0, lines.shape[-1] + sum(pads))
            x = wide.reshape(*lines.shape[:-1], wide.shape[-1]).movedim(-1, axis).to(x.dtype)
    return x


def _resample(x, index, weight, axis):
    rows = []
    for places, factors in zip(index.tolist(), weight.to(x.dtype), strict=True):
        taps = [w * x.select(axis, i) for i, w in zip(places, factors, strict=True) if i >= 0]
        rows.append(sum(taps) if taps else torch.zeros_like(x).sum(axis))
    empty = x.new_zeros([0 if a == axis else n for a, n in enumerate(x.shape)])
    return torch.stack(rows, axis) if rows else empty


def _taps(mode, size, length, columns, step, align_corners, dtype, weights):
    """Where the result of torch for each column of a unit matrix is not zero, and what it is there."""
    units = torch.eye(size, dtype=getattr(torch, dtype))[:, None, None]
    if mode == "window":
        dense = functional.adaptive_avg_pool2d(units, (1, length))
    else:
        kind = mode.removeprefix("smooth_")
        name = {"linear": "bilinear", "cubic": "bicubic", "nearest_exact": "nearest-exact"}.get(kind, kind)
        how = {"align_corners": align_corners, "antialias": kind != mode} if name.startswith("bi") else {}
        to = {"scale_factor": (1.0, 1 / step)} if step else {"size": (1, length)}
        dense = functional.interpolate(units, mode=name, **to, **how)
    rows = [row.nonzero()[:, 0].tolist() for row in dense[:, 0, 0].t()]
    if weights:
        shares = [[float(dense[i, 0, 0, n]) for i in row] for n, row in enumerate(rows)]
        return torch.tensor([row + [0.0] * (columns - len(row)) for row in shares], dtype=units.dtype)
    return torch.tensor([row + [-1] * (columns - len(row)) for row in rows])


def _grid_sample(x, grid, mode, padding, align_corners):
    return functional.grid_sample(x, grid, mode, padding, align_corners)


SPATIAL: dict[str, Any] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "pad": _pad,
    "resample": _resample,
    "taps": _taps,
    "grid_sample": _grid_sample,
}
