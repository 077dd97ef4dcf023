"""Normalisations of channels: batch, instance and group norm at rest.

Batch norm with kept statistics is one multiplication and one addition a channel, which a convolution in front absorbs.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.exporter.context import CallContext, Missing
from engine.exporter.handlers import aten
from engine.graph import Value

_MOMENTUM = "how fast kept statistics move, which they do in training only"
_CUDNN = "chooses among kernels of another device"
_KEPT = {"momentum": _MOMENTUM, "cudnn_enabled": _CUDNN}
FOR_GRADIENTS = "a result for gradients, which are not computed"


def _column(x: CallContext, channel: Value, like: Value, dtype: str) -> Value:
    """[C] as [C, 1, ...], which broadcasts against [N, C, *S]."""
    return x.reshape(x.cast(channel, dtype), (*channel.shape, *[1] * (len(like.shape) - 2)))


def _wide(value: Value) -> str:
    return "float64" if value.dtype == "float64" else "float32"


def _affine(x: CallContext, value: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        value = x.emit("mul", value, _column(x, weight, value, value.dtype))
    return value if bias is None else x.emit("add", value, _column(x, bias, value, value.dtype))


def _by_statistics(
    x: CallContext, value: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, eps: float
) -> Value:
    """Scale and shift are worked out a channel first, so that constants fold; half precision is rounded once."""
    dtype = _wide(value)
    scale = x.emit("rsqrt", x.emit("add", x.cast(variance, dtype), x.scalar(eps, dtype)))
    if weight is not None:
        scale = x.emit("mul", scale, x.cast(weight, dtype))
    shift = x.emit("neg", x.emit("mul", x.cast(mean, dtype), scale))
    if bias is not None:
        shift = x.emit("add", shift, x.cast(bias, dtype))
    return x.cast(_affine(x, x.cast(value, dtype), scale, shift), x.result.dtype)


def _by_batch(x: CallContext, value: Value, weight: Value | None, bias: Value | None, eps: float) -> Value:
    """Statistics of the batch itself."""
    wide = x.cast(value, _wide(value))
    over = tuple(axis for axis in range(len(value.shape)) if axis != 1)
    mean = x.emit("mean", wide, axes=over, keepdims=True)
    variance = x.emit("var", wide, axes=over, correction=0.0, keepdims=True)
    scale = x.emit("rsqrt", x.emit("add", variance, x.scalar(eps, wide.dtype)))
    y = x.emit("mul", x.emit("sub", wide, mean), scale)
    return x.cast(_affine(x, y, weight, bias), x.result.dtype)


def normalised(
    x: CallContext, op: str, value: Value, affine: Mapping[str, Value | None], **attributes: float
) -> Value | list[Value | Missing]:
    """Operands of several types are computed in the widest, and the result is rounded once."""
    dtype = value.dtype
    for operand in affine.values():
        if operand is not None:
            dtype = x.common_dtype(value, operand)
    operands = {name: None if operand is None else x.cast(operand, dtype) for name, operand in affine.items()}
    y = x.emit_named(op, {**operands, "x": x.cast(value, dtype)}, **attributes)
    return x.alone(x.cast(y, x.result.dtype), FOR_GRADIENTS)


@aten(
    *("batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit.no_stats"),
    harmless=_KEPT,
)
def batch_norm(
    x: CallContext,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    training: bool = False,
    *,
    eps: float,
) -> Value | list[Value | Missing]:
    if running_mean is None or running_var is None:
        return x.alone(_by_batch(x, input, weight, bias, eps), FOR_GRADIENTS)
    if training:
        x.refuse("training=True moves the kept statistics; call model.eval()")
    return x.alone(_by_statistics(x, input, weight, bias, running_mean, running_var, eps), FOR_GRADIENTS)


@aten("instance_norm", harmless=_KEPT)
def instance_norm(
    x: CallContext,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    eps: float,
) -> Value | list[Value | Missing]:
    """A channel of one image is a group; with kept statistics it is batch norm."""
    if running_mean is None or running_var is None:
        affine = {"weight": weight, "bias": bias}
        return normalised(x, "group_norm", input, affine, groups=input.shape[1], epsilon=eps)
    if use_input_stats:
        x.refuse("use_input_stats=True moves the kept statistics; call model.eval()")
    return _by_statistics(x, input, weight, bias, running_mean, running_var, eps)


_OF_INPUT = "the input's own shape has it"


@aten(
    *("group_norm", "native_group_norm"),
    harmless={"cudnn_enabled": _CUDNN, **dict.fromkeys(("N", "C", "HxW"), _OF_INPUT)},
    renamed={"group": "num_groups"},
)
def group_norm(
    x: CallContext, input: Value, num_groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value | list[Value | Missing]:
    return normalised(x, "group_norm", input, {"weight": weight, "bias": bias}, groups=num_groups, epsilon=eps)
