"""Normalisations over trailing axes, and softmax over one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.ops.check import (
    FLOATS,
    axis_of,
    cast_array,
    of_dtype,
    of_same_dtype,
    of_shape,
    optional,
    present,
    result,
    rounded,
    widened,
    wrong,
)
from engine.ops.conv import channels_first
from engine.ops.rounding import RESULT, Rounding
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

SOFTMAX_FLOPS = 5  # an element: compare for the maximum, subtract, exp, add, divide (or subtract the logarithm)
LAYER_NORM_FLOPS = 5  # an element: add for the mean, subtract, square, add for the variance, scale
RMS_NORM_FLOPS = 3  # an element: square, add, scale


def _infer_norm(name: str, affine: tuple[str, ...]) -> Callable[[Types, Attributes], tuple[TensorType, ...]]:
    def infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        x = of_dtype(name, "x", present(name, inputs, 0, "x"), FLOATS)
        axes = attributes["axes"]
        if not 1 <= axes <= len(x.shape):
            raise wrong(name, f"1 to {len(x.shape)} trailing axes of {x}", axes)
        for position, operand in enumerate(affine, 1):
            given = optional(inputs, position)
            if given is not None:
                of_shape(name, operand, of_same_dtype(name, operand, given, x.dtype), x.shape[-axes:])
        addend = optional(inputs, 1 + len(affine))
        if addend is not None:
            of_shape(name, "addend", of_same_dtype(name, "addend", addend, x.dtype), x.shape)
        return result(name, x.dtype, x.shape)

    return infer


def _norm_flops(each: int) -> Callable[[Types, Sequence[TensorType], Attributes], int]:
    def flops(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
        # one more an element for each of weight, bias and addend
        return outputs[0].size * (each + sum(t is not None for t in inputs[1:]))

    return flops


def _trailing(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))


def _standardised(wide: np.ndarray, over: tuple[int, ...], epsilon: float) -> np.ndarray:
    """Distances from the mean over some axes, in standard deviations."""
    count = np.float64(np.prod([wide.shape[axis] for axis in over], dtype=np.int64))
    centred = wide - np.sum(wide, axis=over, keepdims=True) / count
    return np.asarray(centred / np.sqrt(np.sum(centred * centred, axis=over, keepdims=True) / count + epsilon))


def _sum(x: np.ndarray, addend: np.ndarray | None) -> np.ndarray:
    """X + addend in float64, rounded to their type as an add of its own would: fused bits equal those of two ops."""
    return widened(x if addend is None else rounded(np.add, x, addend))


def _layer_norm_reference(
    x: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    addend: np.ndarray | None,
    axes: int,
    epsilon: float,
) -> np.ndarray:
    with np.errstate(all="ignore"):
        y = _standardised(_sum(x, addend), _trailing(axes), epsilon)
        if weight is not None:
            y = y * widened(weight)
        if bias is not None:
            y = y + widened(bias)
        return cast_array(y, x.dtype)


def _rms_norm_reference(
    x: np.ndarray, weight: np.ndarray | None, addend: np.ndarray | None, axes: int, epsilon: float
) -> np.ndarray:
    wide, over = _sum(x, addend), _trailing(axes)
    count = int(np.prod(x.shape[-axes:], dtype=np.int64))
    with np.errstate(all="ignore"):
        mean_square = np.sum(wide * wide, axis=over, keepdims=True) / np.float64(count)
        y = wide / np.sqrt(mean_square + epsilon)
        if weight is not None:
            y = y * widened(weight)
        return cast_array(y, x.dtype)


SUM_FIRST = Rounding(("x + addend", RESULT))
_NORM_ATTRIBUTES = {"axes": Attribute("int"), "epsilon": Attribute("float")}

declare(
    Op(
        "layer_norm",
        "norm",
        ("x", "weight?", "bias?", "addend?"),
        _infer_norm("layer_norm", ("weight", "bias")),
        _layer_norm_reference,
        _NORM_ATTRIBUTES,
        flops=_norm_flops(LAYER_NORM_FLOPS),
        inplace=(0, 3),
        rounding=SUM_FIRST,
        doc="(v - mean) / sqrt(variance + epsilon) * weight + bias over the last `axes` axes, v = x + addend "
        "(Ba et al. 2016)",
    )
)
declare(
    Op(
        "rms_norm",
        "norm",
        ("x", "weight?", "addend?"),
        _infer_norm("rms_norm", ("weight",)),
        _rms_norm_reference,
        _NORM_ATTRIBUTES,
        flops=_norm_flops(RMS_NORM_FLOPS),
        inplace=(0, 2),
        rounding=SUM_FIRST,
        doc="v / sqrt(mean(v^2) + epsilon) * weight over the last `axes` axes, v = x + addend "
        "(Zhang and Sennrich 2019)",
    )
)


def _infer_group_norm(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("group_norm", "x", present("group_norm", inputs, 0, "x"), FLOATS)
    if len(x.shape) < 2:
        raise wrong("group_norm", "x of 2 axes or more", x)
    channels = channels_first(x, attributes["channels_last"]).shape[1]
    if attributes["groups"] < 1 or channels % attributes["groups"]:
        raise wrong("group_norm", f"groups that divide the {channels} channels of {x}", attributes["groups"])
    for position, operand in enumerate(("weight", "bias"), 1):
        given = optional(inputs, position)
        if given is not None:
            of_shape("group_norm", operand, of_same_dtype("group_norm", operand, given, x.dtype), (channels,))
    return result("group_norm", x.dtype, x.shape)


def _group_norm_reference(
    x: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    groups: int,
    epsilon: float,
    channels_last: bool,
) -> np.ndarray:
    wide = widened(np.moveaxis(x, -1, 1) if channels_last else x)
    shape, column = wide.shape, (-1, *[1] * (x.ndim - 2))
    with np.errstate(all="ignore"):
        apart = wide.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
        y = _standardised(apart, tuple(range(2, apart.ndim)), epsilon).reshape(shape)
        if weight is not None:
            y = y * widened(weight).reshape(column)
        if bias is not None:
            y = y + widened(bias).reshape(column)
        return cast_array(np.moveaxis(y, 1, -1) if channels_last else y, x.dtype)


declare(
    Op(
        "group_norm",
        "norm",
        ("x", "weight?", "bias?"),
        _infer_group_norm,
        _group_norm_reference,
        {"groups": Attribute("int"), "epsilon": Attribute("float"), "channels_last": Attribute("bool", False)},
        flops=_norm_flops(LAYER_NORM_FLOPS),
        inplace=(0,),
        doc="(x - mean) / sqrt(variance + epsilon) * weight + bias, statistics over each group of channels of an "
        "image: x [N, C, *S], or [N, *S, C] with channels_last, weight and bias [C] (Wu and He 2018)",
    )
)


def _shifted(x: np.ndarray, axis: int) -> np.ndarray:
    return x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(_shifted(x, axis))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = _shifted(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _declare_softmax(name: str, function: Callable[[np.ndarray, int], np.ndarray], doc: str) -> None:
    def infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        x = of_dtype(name, "x", present(name, inputs, 0, "x"), FLOATS)
        axis_of(name, attributes["axis"], x)
        return result(name, x.dtype, x.shape)

    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        return rounded(lambda wide: function(wide, axis), x)

    def flops(_inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
        return SOFTMAX_FLOPS * outputs[0].size

    declare(Op(name, "norm", ("x",), infer, reference, {"axis": Attribute("axis")}, flops=flops, inplace=(0,), doc=doc))


_declare_softmax("softmax", _softmax, "exp(x) / sum(exp(x)) over one axis; a row of -inf gives NaN")
_declare_softmax("log_softmax", _log_softmax, "logarithm of softmax over one axis")
