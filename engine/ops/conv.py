"""Convolutions over one to three spatial axes, as networks use the word: without turning the kernel round.

x is [N, C, *S], or [N, *S, C] where an op says `channels_last`. Attributes of spatial axes are tuples with one number
an axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.ops.arithmetic import FLOAT_COMPUTE, factor
from engine.ops.check import (
    FLOATS,
    bounded,
    cast_array,
    of_dtype,
    of_rank,
    of_same_dtype,
    of_shape,
    optional,
    present,
    result,
    widened,
    wrong,
)
from engine.ops.matmul import ACTIVATIONS
from engine.ops.pointwise import ACTIVATION_FLOPS
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

Ints = tuple[int, ...]


def spatial(op: str, attributes: Attributes, least: dict[str, int | None], axes: int) -> None:
    """ValueError unless each attribute that `least` names has a number for each of `axes` axes, its least or more."""
    for name, bound in least.items():
        given = attributes[name]
        if len(given) != axes:
            raise wrong(op, f"{name} of {axes} number(s), one a spatial axis", list(given))
        if bound is not None and any(v < bound for v in given):
            raise wrong(op, f"{name} of {bound} or more", list(given))


def image(op: str, inputs: Types) -> TensorType:
    """The type of x [N, C, *S] with one to three spatial axes."""
    return of_rank(op, "x", of_dtype(op, "x", present(op, inputs, 0, "x"), FLOATS), 3, 5)


def channels_first(type_: TensorType, channels_last: bool) -> TensorType:
    """The type with its channels on axis 1, where they lie on the last one."""
    shape = type_.shape
    return TensorType(type_.dtype, (shape[0], shape[-1], *shape[1:-1])) if channels_last else type_


def channels_back(shape: Ints, channels_last: bool) -> Ints:
    """A shape [N, C, *S] with its channels where they belong."""
    return (shape[0], *shape[2:], shape[1]) if channels_last else shape


def extent(kernel: int, dilation: int) -> int:
    """From the first to past the last element that a kernel's taps touch along an axis."""
    return dilation * (kernel - 1) + 1


def fitted(op: str, size: int, low: int, high: int, reach: int) -> int:
    """Places of a window that reaches over `reach` elements beside the first one; ValueError where it does not fit."""
    free = size + low + high - reach
    if free < 0:
        raise wrong(op, f"a kernel within the padded input's {size + low + high}", f"one that reaches over {reach}")
    return free


def bounded_reach(op: str, x: TensorType, channels: int, *lengths: Sequence[int]) -> None:
    """ValueError where an image of `channels` channels that is as long as all `lengths` together would be too large.

    Each of `lengths` has one number for each spatial axis, such as the padding or the stride, so that a kernel may
    multiply channels and one of these numbers for each axis. x [N, C, *S] says how many images.
    """
    together = map(sum, zip(*lengths, strict=True))
    bounded(op, "sizes, windows, strides and padding together", (x.shape[0], channels, *together), x.itemsize)


def zero_padded(x: np.ndarray, low: Sequence[int], high: Sequence[int]) -> np.ndarray:
    """`x` with zeros around its spatial axes."""
    return np.pad(x, [(0, 0), (0, 0), *zip(low, high, strict=True)])


def strided(x: np.ndarray, start: Sequence[int], stride: Sequence[int], count: Sequence[int]) -> np.ndarray:
    """Of each spatial axis the elements start, start + stride, ..., `count` of them; a view."""
    cuts = zip(start, stride, count, strict=True)
    return _cut(x, [slice(begin, begin + (n - 1) * step + 1, step) for begin, step, n in cuts])


def _cut(x: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
    """`x` with its last axes cut."""
    where: tuple[Any, ...] = (..., *slices)
    return np.asarray(x[where])


def _operands(op: str, inputs: Types, attributes: Attributes, out_axis: int) -> tuple[TensorType, TensorType]:
    """Types of x and weight, checked against each other; output channels of a group lie on weight's `out_axis`."""
    x = channels_first(image(op, inputs), attributes.get("channels_last", False))
    rank = len(x.shape)
    weight = of_same_dtype(op, "weight", present(op, inputs, 1, "weight"), x.dtype)
    of_rank(op, "weight", weight, rank, rank)
    spatial(op, attributes, {"stride": 1, "dilation": 1, "low": 0, "high": None if out_axis else 0}, rank - 2)
    if 0 in (x.shape[1], *weight.shape):
        raise wrong(op, "one channel and one tap at least", f"{x} and weight {weight}")
    groups = attributes["groups"]
    channels = weight.shape[0] if out_axis else groups * weight.shape[1]
    if groups < 1 or channels != x.shape[1] or weight.shape[0] % groups:
        raise wrong(op, f"groups that divide the channels of {x} and of its weight", f"{groups} and weight {weight}")
    return x, weight


def _epilogue(op: str, inputs: Types, x: TensorType, shape: Ints, channels: int) -> tuple[TensorType]:
    """The result's type; bias [O] and a residual of its shape are checked."""
    for position, name, expected in ((2, "bias", (channels,)), (3, "residual", shape)):
        operand = optional(inputs, position)
        if operand is not None:
            of_shape(op, name, of_same_dtype(op, name, operand, x.dtype), expected)
    return result(op, x.dtype, shape)


def _infer_conv(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, weight = _operands("conv", inputs, attributes, 0)
    a = attributes
    rows = zip(x.shape[2:], weight.shape[2:], a["low"], a["high"], a["dilation"], a["stride"], strict=True)
    sizes = [fitted("conv", n, low, high, extent(k, d)) // step + 1 for n, k, low, high, d, step in rows]
    channels = x.shape[1] + weight.shape[0]
    bounded_reach("conv", x, channels, x.shape[2:], a["low"], a["high"], a["stride"], a["dilation"])
    shape = channels_back((x.shape[0], weight.shape[0], *sizes), a["channels_last"])
    return _epilogue("conv", inputs, x, shape, weight.shape[0])


def _channel(bias: np.ndarray, axes: int) -> np.ndarray:
    """A vector over channels that broadcasts against [N, C, *S]."""
    return widened(bias).reshape(-1, *[1] * axes)


def _conv_reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    *,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
    activation: str,
    channels_last: bool,
    compute: str = "element",
) -> np.ndarray:
    """The sum over the kernel's taps of a product of matrices, one a group."""
    x = np.moveaxis(x, -1, 1) if channels_last else x
    image, taps = factor(x, compute), factor(weight, compute)
    kernel = taps.shape[2:]
    source = zero_padded(image, low, high)
    rows = zip(source.shape[2:], kernel, dilation, stride, strict=True)
    out = tuple((n - extent(k, d)) // step + 1 for n, k, d, step in rows)
    matrices = taps.reshape(groups, taps.shape[0] // groups, taps.shape[1], *kernel)
    y = np.zeros((x.shape[0], groups, matrices.shape[1], math.prod(out)))
    with np.errstate(all="ignore"):
        for tap in np.ndindex(*kernel):
            start = [t * d for t, d in zip(tap, dilation, strict=True)]
            part = strided(source, start, stride, out).reshape(x.shape[0], groups, taps.shape[1], math.prod(out))
            y += matrices[(..., *tap)] @ part
        y = y.reshape(x.shape[0], taps.shape[0], *out)
        return cast_array(_finished(y, bias, residual, activation, channels_last), x.dtype)


def _finished(
    y: np.ndarray, bias: np.ndarray | None, residual: np.ndarray | None, activation: str, channels_last: bool
) -> np.ndarray:
    """What follows the sums y [N, O, *R], float64: bias, residual and activation."""
    if bias is not None:
        y = y + _channel(bias, y.ndim - 2)
    y = np.moveaxis(y, 1, -1) if channels_last else y
    if residual is not None:
        y = y + widened(residual)
    return np.asarray(ACTIVATIONS[activation](y))


def _epilogue_flops(inputs: Types, attributes: Attributes) -> int:
    """Of one element of the result."""
    addends = sum(optional(inputs, position) is not None for position in (2, 3))
    return addends + ACTIVATION_FLOPS[attributes["activation"]]


def _conv_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    """Taps over the padding count like others: the arithmetic of a direct convolution."""
    weight = present("conv", inputs, 1, "weight")
    return outputs[0].size * (2 * math.prod(weight.shape[1:]) + _epilogue_flops(inputs, attributes))


_ATTRIBUTES = {
    "stride": Attribute("ints"),
    "low": Attribute("ints"),
    "high": Attribute("ints"),
    "dilation": Attribute("ints"),
    "groups": Attribute("int", 1),
    "activation": Attribute("choice", "none", tuple(ACTIVATIONS)),
    "channels_last": Attribute("bool", False),
}

declare(
    Op(
        "conv",
        "conv",
        ("x", "weight", "bias?", "residual?"),
        _infer_conv,
        _conv_reference,
        _ATTRIBUTES | {"compute": FLOAT_COMPUTE},
        flops=_conv_flops,
        inplace=(3,),  # the residual is read at the index that is written, and nowhere else
        encoded={"weight": ""},
        doc="activation(x * W + bias + residual); x [N, C, *S] with `low` and `high` zeros before and behind each "
        "axis, W [O, C / groups, *K], bias [O], residual [N, O, *R]; with channels_last x and residual end in channels",
    )
)


def _infer_conv_transpose(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, weight = _operands("conv_transpose", inputs, attributes, 1)
    a = attributes
    rows = zip(x.shape[2:], weight.shape[2:], a["dilation"], a["stride"], strict=True)
    full = [(n - 1) * step + extent(k, d) for n, k, d, step in rows]
    sizes = [n - low - high for n, low, high in zip(full, a["low"], a["high"], strict=True)]
    if 0 in x.shape[2:] or any(size < 1 for size in sizes):
        raise wrong("conv_transpose", "a result with elements", f"sizes {sizes} from {x}")
    channels = weight.shape[1] * attributes["groups"]
    bounded_reach("conv_transpose", x, x.shape[1] + channels, full, a["low"], sizes, a["stride"], a["dilation"])
    shape = channels_back((x.shape[0], channels, *sizes), a["channels_last"])
    return _epilogue("conv_transpose", inputs, x, shape, channels)


def _conv_transpose_reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    *,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
    activation: str,
    channels_last: bool,
) -> np.ndarray:
    """Every element of x adds itself, times the kernel, to the places of the result that it reaches."""
    x = np.moveaxis(x, -1, 1) if channels_last else x
    batch, channels, *sizes = x.shape
    kernel = weight.shape[2:]
    rows = zip(sizes, kernel, dilation, stride, strict=True)
    full = [(n - 1) * step + extent(k, d) for n, k, d, step in rows]
    matrices = widened(weight).reshape(groups, channels // groups, weight.shape[1], *kernel)
    columns = widened(x).reshape(batch, groups, channels // groups, math.prod(sizes))
    y = np.zeros((batch, groups * weight.shape[1], *(n + max(0, -more) for n, more in zip(full, high, strict=True))))
    with np.errstate(all="ignore"):
        for tap in np.ndindex(*kernel):
            start = [t * d for t, d in zip(tap, dilation, strict=True)]
            part = np.swapaxes(matrices[(..., *tap)], -1, -2) @ columns
            strided(y, start, stride, sizes)[...] += part.reshape(batch, y.shape[1], *sizes)
        ends = [n - more for n, more in zip(full, high, strict=True)]
        y = _cut(y, [slice(begin, end) for begin, end in zip(low, ends, strict=True)])
        return cast_array(_finished(y, bias, residual, activation, channels_last), x.dtype)


def _conv_transpose_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    x, weight = present("conv_transpose", inputs, 0, "x"), present("conv_transpose", inputs, 1, "weight")
    return 2 * x.size * math.prod(weight.shape[1:]) + outputs[0].size * _epilogue_flops(inputs, attributes)


declare(
    Op(
        "conv_transpose",
        "conv",
        ("x", "weight", "bias?", "residual?"),
        _infer_conv_transpose,
        _conv_transpose_reference,
        _ATTRIBUTES,
        flops=_conv_transpose_flops,
        inplace=(3,),
        doc="the transpose of conv: element i of x times W goes to `stride` * i and on, then bias, residual and "
        "activation; x [N, C, *S], W [C, O / groups, *K]; `low` and `high` elements of the result are cut off, -n adds "
        "n that no tap reaches; channels_last as in conv",
    )
)
