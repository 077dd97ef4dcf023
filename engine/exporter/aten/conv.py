"""Convolutions: one, two and three spatial axes, transposed or not, with every way to name their padding."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import ShapeError
from engine.exporter.context import CallContext
from engine.exporter.handlers import aten
from engine.graph import Value

Ints = Sequence[int]


def spread(numbers: Ints, axes: int) -> tuple[int, ...]:
    """One number an axis; torch lets one stand for all."""
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers)


def batched(x: CallContext, value: Value, axes: int) -> Value:
    """[N, C, *S], where torch also takes [C, *S]."""
    return x.reshape(value, (1, *value.shape)) if len(value.shape) == axes + 1 else value


def _same(weight: Value, dilation: Ints) -> tuple[Ints, Ints]:
    """Padding that keeps the sizes; an odd element goes behind the axis, as torch has it."""
    axes = len(weight.shape) - 2
    total = [d * (k - 1) for d, k in zip(spread(dilation, axes), weight.shape[2:], strict=True)]
    low = [n // 2 for n in total]
    return low, [n - before for n, before in zip(total, low, strict=True)]


@aten(
    *("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding"),
    *("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution"),
)
def conv(
    x: CallContext,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
    output_padding: Ints | None = None,
    transposed: bool = True,
) -> Value:
    """Also transposed, where there is output padding and `transposed` does not deny it."""
    axes = len(weight.shape) - 2
    steps, spaces = spread(stride, axes), spread(dilation, axes)
    if isinstance(padding, str):
        low, high = _same(weight, dilation) if padding == "same" else ((0,) * axes, (0,) * axes)
    else:
        low = high = spread(padding, axes)
    op = "conv"
    if output_padding is not None and transposed:
        more = spread(output_padding, axes)
        if any(add >= max(step, space) for add, step, space in zip(more, steps, spaces, strict=True)):
            raise ShapeError(
                f"conv_transpose: output_padding {list(more)} is not below stride {list(steps)} or dilation"
            )
        op, high = "conv_transpose", tuple(cut - add for cut, add in zip(low, more, strict=True))
    y = x.emit_named(
        op,
        {"x": batched(x, input, axes), "weight": weight, "bias": bias},
        stride=steps,
        low=tuple(low),
        high=tuple(high),
        dilation=spaces,
        groups=groups,
    )
    return x.reshape(y, x.result.shape)
