"""Convolutions: one, two and three spatial axes, transposed or not, with every way to name their padding."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import ShapeError
from engine.exporter.context import CallContext
from engine.exporter.registry import aten
from engine.graph import Value

Ints = Sequence[int]


def spread(numbers: Ints, axes: int) -> tuple[int, ...]:
    """One number an axis; torch lets one stand for all."""
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers)


def batched(x: CallContext, value: Value, axes: int) -> Value:
    """[N, C, *S], where torch also takes [C, *S]."""
    return x.reshape(value, (1, *value.shape)) if len(value.shape) == axes + 1 else value


def _conv(
    x: CallContext,
    value: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    pads: tuple[Ints, Ints],
    dilation: Ints,
    groups: int,
) -> Value:
    axes = len(weight.shape) - 2
    y = x.emit_named(
        "conv",
        {"x": batched(x, value, axes), "weight": weight, "bias": bias},
        stride=spread(stride, axes),
        low=spread(pads[0], axes),
        high=spread(pads[1], axes),
        dilation=spread(dilation, axes),
        groups=groups,
    )
    return x.reshape(y, x.result.shape)


def _same(weight: Value, dilation: Ints) -> tuple[Ints, Ints]:
    """Padding that keeps the sizes; an odd element goes behind the axis, as torch has it."""
    axes = len(weight.shape) - 2
    total = [d * (k - 1) for d, k in zip(spread(dilation, axes), weight.shape[2:], strict=True)]
    low = [n // 2 for n in total]
    return low, [n - before for n, before in zip(total, low, strict=True)]


@aten("conv1d", "conv2d", "conv3d")
def conv(
    x: CallContext,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Value:
    return _conv(x, input, weight, bias, stride, (padding, padding), dilation, groups)


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padding(
    x: CallContext,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: str,
    dilation: Ints,
    groups: int,
) -> Value:
    pads = _same(weight, dilation) if padding == "same" else ((0,), (0,))
    return _conv(x, input, weight, bias, stride, pads, dilation, groups)


def _transposed(
    x: CallContext,
    value: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> Value:
    axes = len(weight.shape) - 2
    low, steps, spaces = spread(padding, axes), spread(stride, axes), spread(dilation, axes)
    more = spread(output_padding, axes)
    if any(add >= max(step, space) for add, step, space in zip(more, steps, spaces, strict=True)):
        raise ShapeError(f"conv_transpose: output_padding {list(more)} is not below stride {list(steps)} or dilation")
    y = x.emit_named(
        "conv_transpose",
        {"x": batched(x, value, axes), "weight": weight, "bias": bias},
        stride=steps,
        low=low,
        high=tuple(cut - add for cut, add in zip(low, more, strict=True)),
        dilation=spaces,
        groups=groups,
    )
    return x.reshape(y, x.result.shape)


@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    x: CallContext,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> Value:
    return _transposed(x, input, weight, bias, stride, padding, output_padding, groups, dilation)


@aten("convolution")
def convolution(
    x: CallContext,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value:
    """What torch's own decompositions make of all the others. Without `transposed` output_padding is not read."""
    if transposed:
        return _transposed(x, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(x, input, weight, bias, stride, (padding, padding), dilation, groups)
