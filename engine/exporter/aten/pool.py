"""Pooling over windows, and over as many windows as a size asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.exporter.aten.conv import batched, spread
from engine.exporter.aten.resample import make_taps, resampled
from engine.exporter.context import CallContext, Missing
from engine.exporter.handlers import aten
from engine.graph import Value
from engine.sizes import is_fixed, same

Ints = Sequence[int]
_INDICES = "positions of the largest elements are not computed: take the values alone"


def _pool(
    x: CallContext, op: str, axes: int, value: Value, kernel: Ints, stride: Ints, padding: Ints, **more: Any
) -> Value:
    """Without a stride, window follows window."""
    kernel, pads = spread(kernel, axes), spread(padding, axes)
    stride = spread(stride, axes) if stride else kernel
    y = x.emit(op, batched(x, value, axes), kernel=kernel, stride=stride, low=pads, high=pads, **more)
    return x.reshape(y, x.result.shape)


def _declare_max(axes: int) -> None:
    @aten(f"max_pool{axes}d", f"max_pool{axes}d_with_indices")
    def max_pool(
        x: CallContext, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> Value | list[Value | Missing]:
        more = {"dilation": spread(dilation, axes), "ceil_mode": ceil_mode}
        return x.alone(_pool(x, "max_pool", axes, self, kernel_size, stride, padding, **more), _INDICES)


def _declare_avg(axes: int) -> None:
    @aten(f"avg_pool{axes}d")
    def avg_pool(
        x: CallContext,
        self: Value,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> Value:
        more = {"ceil_mode": ceil_mode, "count_padding": count_include_pad, "divisor": divisor_override or 0}
        return _pool(x, "avg_pool", axes, self, kernel_size, stride, padding, **more)


for _axes in (1, 2, 3):
    _declare_max(_axes)
    _declare_avg(_axes)

# --- as many windows as a size asks for -------------------------------------------------------------------------


def _pool_equal(
    x: CallContext, axes: int, value: Value, output_size: Ints, reduction: str, op: str, **more: Any
) -> Value | None:
    """The result where all windows have one size."""
    spatial, requested = value.shape[len(value.shape) - axes :], spread(output_size, axes)
    if all(same(n, 1) for n in requested):
        over = tuple(range(len(value.shape) - axes, len(value.shape)))
        return x.emit(reduction, value, axes=over, keepdims=True)
    if is_fixed((*spatial, *requested)) and all(
        n and size % n == 0 for size, n in zip(spatial, requested, strict=True)
    ):
        kernel = [size // n for size, n in zip(spatial, requested, strict=True)]
        return _pool(x, op, axes, value, kernel, (), (0,), **more)
    return None


def _adaptive_avg(x: CallContext, axes: int, value: Value, output_size: Ints) -> Value:
    """Axis after axis where windows differ in size: the mean over a box is the mean of means of equal counts."""
    pooled = _pool_equal(x, axes, value, output_size, "mean", "avg_pool")
    if pooled is not None:
        return pooled
    dtype = "float64" if value.dtype == "float64" else "float32"
    return resampled(x, value, list(_windows(x, axes, value, output_size, dtype)))


def _windows(
    x: CallContext, axes: int, value: Value, output_size: Ints, dtype: str
) -> Iterator[tuple[int, Value, Value]]:
    """(axis, index, weight) of each axis for which windows are asked."""
    for axis, n in enumerate(spread(output_size, axes), len(value.shape) - axes):
        if not same(size := value.shape[axis], n):
            most = size // n + 2 if is_fixed(n) and n else size
            yield axis, *make_taps(x, "window", size, n, None, most, align=False, dtype=dtype)


def _adaptive_max(x: CallContext, axes: int, value: Value, output_size: Ints) -> Value:
    """The windows of one axis side by side where they differ in size, some elements twice: that changes no maximum."""
    pooled = _pool_equal(x, axes, value, output_size, "amax", "max_pool", dilation=(1,) * axes)
    if pooled is not None:
        return pooled
    for axis, index, _weight in _windows(x, axes, value, output_size, "float32"):
        n, taps = index.shape
        places = x.emit("maximum", index, x.slice(index, 1, 0, 1))  # the first one of a window for absent ones
        parts = x.emit("index_select", value, x.reshape(places, (n * taps,)), axis=axis)
        apart = x.reshape(parts, (*value.shape[:axis], n, taps, *value.shape[axis + 1 :]))
        value = x.emit("amax", apart, axes=(axis + 1,), keepdims=False)
    return value


def _declare_adaptive(name: str, axes: int, translate: Callable[[CallContext, int, Value, Ints], Value]) -> None:
    @aten(name)
    def adaptive(x: CallContext, self: Value, output_size: Ints) -> Value:
        return translate(x, axes, self, output_size)


def _declare_adaptive_max(axes: int) -> None:
    @aten(f"adaptive_max_pool{axes}d")
    def adaptive_max(x: CallContext, self: Value, output_size: Ints) -> Value | list[Value | Missing]:
        return x.alone(_adaptive_max(x, axes, self, output_size), _INDICES)


for _axes in (1, 2, 3):
    _declare_adaptive(f"adaptive_avg_pool{_axes}d", _axes, _adaptive_avg)
    _declare_adaptive_max(_axes)
_declare_adaptive("_adaptive_avg_pool2d", 2, _adaptive_avg)
_declare_adaptive("_adaptive_avg_pool3d", 3, _adaptive_avg)
