"""Reductions: sums, means, extremes, variances, tests, positions, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import FROM_META, aten
from engine.graph import Value

Dims = int | Sequence[int] | None
_DTYPE = {"dtype": FROM_META}


def _axes(x: CallContext, dim: Dims, rank: int) -> tuple[int, ...]:
    """The axes that `dim` names, in order; all of them for None and for an empty list."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    return tuple(sorted({x.axis(d, rank) for d in dims})) if rank else ()


def _reduced(x: CallContext, op: str, value: Value, dim: Dims, keepdim: bool) -> Value:
    """In the result's type: torch widens before it adds."""
    value = x.cast(value, x.result.dtype)
    return x.emit(op, value, axes=_axes(x, dim, len(value.shape)), keepdims=keepdim)


# --- sums, means, products --------------------------------------------------------------------------------------


def _reduction(op: str, over_axes: str) -> None:
    @aten(op, over_axes, harmless=_DTYPE)
    def translate(x: CallContext, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        return _reduced(x, op, self, dim, keepdim)


_reduction("sum", "sum.dim_IntList")
_reduction("mean", "mean.dim")
_reduction("prod", "prod.dim_int")


def _running(op: str) -> None:
    @aten(op, harmless=_DTYPE)
    def translate(x: CallContext, self: Value, dim: int) -> Value:
        value = x.lifted(x.cast(self, x.result.dtype))
        return x.reshape(x.emit(op, value, axis=x.axis(dim, len(value.shape))), self.shape)


_running("cumsum")
_running("cumprod")


@aten("diff")
def diff(x: CallContext, self: Value, n: int, dim: int, prepend: Value | None, append: Value | None) -> Value:
    """Differences of neighbours, n times. Of n = 0 torch gives the elements, with nothing before or after them."""
    axis, dtype = x.axis(dim, len(self.shape)), x.result.dtype
    parts = [x.cast(part, dtype) for part in (prepend, self, append) if part is not None] if n else [self]
    value = parts[0] if len(parts) == 1 else x.emit("concat", *parts, axis=axis)
    for _ in range(min(n, value.shape[axis])):
        size = value.shape[axis]
        later, earlier = x.slice(value, axis, 1, size), x.slice(value, axis, 0, size - 1)
        value = x.emit("logical_xor" if dtype == "bool" else "sub", later, earlier)
    return value


# --- tests and extremes -----------------------------------------------------------------------------------------


def _tests(op: str) -> None:
    @aten(op, f"{op}.dim", f"{op}.dims")
    def translate(x: CallContext, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        """For uint8 torch answers uint8, else bool. Unlike elsewhere an empty list reduces nothing."""
        axes = () if isinstance(dim, Sequence) and not dim else _axes(x, dim, len(self.shape))
        return x.cast(x.emit(op, self, axes=axes, keepdims=keepdim), x.result.dtype)


_tests("any")
_tests("all")

_OF_BOOL = {"amax": "any", "amin": "all"}


def _extreme(x: CallContext, op: str, value: Value, dim: Dims, keepdim: bool) -> Value:
    axes = _axes(x, dim, len(value.shape))
    return x.emit(_OF_BOOL[op] if value.dtype == "bool" else op, value, axes=axes, keepdims=keepdim)


def _position(x: CallContext, op: str, value: Value, dim: int | None, keepdim: bool) -> Value:
    """Without a dim the position counts in row-major order, and keepdim keeps every axis."""
    value = x.cast(value, "uint8") if value.dtype == "bool" else value
    flat = x.reshape(value, (value.type.size,)) if dim is None else x.lifted(value)
    y = x.emit(op, flat, axis=x.axis(dim or 0, len(flat.shape)), keepdims=keepdim)
    if dim is None:
        return x.reshape(y, [1] * len(value.shape) if keepdim else [])
    return y if value.shape else x.reshape(y, ())


def _extremes(name: str, op: str, position: str) -> None:
    @aten(op, name)
    def without_position(x: CallContext, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        return _extreme(x, op, self, dim, keepdim)

    @aten(f"{name}.dim")
    def with_position(x: CallContext, self: Value, dim: int, keepdim: bool) -> list[Value]:
        return [_extreme(x, op, self, dim, keepdim), _position(x, position, self, dim, keepdim)]

    @aten(position)
    def only_position(x: CallContext, self: Value, dim: int | None, keepdim: bool) -> Value:
        return _position(x, position, self, dim, keepdim)


_extremes("max", "amax", "argmax")
_extremes("min", "amin", "argmin")

# --- variances --------------------------------------------------------------------------------------------------


def _variance(x: CallContext, value: Value, dim: Dims, correction: Number, keepdim: bool) -> Value:
    axes = _axes(x, dim, len(value.shape))
    return x.emit("var", value, axes=axes, correction=float(correction), keepdims=keepdim)


def _deviation(x: CallContext, value: Value, dim: Dims, correction: Number, keepdim: bool) -> Value:
    return x.emit("sqrt", _variance(x, value, dim, correction, keepdim))


def _with_mean(spread: Callable[..., Value]) -> Callable[..., list[Value]]:
    def both(x: CallContext, value: Value, dim: Dims, correction: Number, keepdim: bool) -> list[Value]:
        return [spread(x, value, dim, correction, keepdim), _reduced(x, "mean", value, dim, keepdim)]

    return both


def _variances(name: str, measure: Callable[..., Value | list[Value]]) -> None:
    @aten(name, f"{name}.dim", f"{name}.correction")
    def translate(
        x: CallContext,
        self: Value,
        dim: Dims = None,
        unbiased: bool = True,
        correction: Number | None = None,
        keepdim: bool = False,
    ) -> Value | list[Value]:
        return measure(x, self, dim, int(unbiased) if correction is None else correction, keepdim)


_variances("var", _variance)
_variances("std", _deviation)
_variances("var_mean", _with_mean(_variance))
_variances("std_mean", _with_mean(_deviation))

# --- norms ------------------------------------------------------------------------------------------------------


def _sum_of_powers(x: CallContext, size: Value, order: float, over: dict[str, object]) -> Value:
    power = x.emit("pow", size, x.scalar(order, size.dtype))
    return x.emit("pow", x.emit("sum", power, **over), x.scalar(1 / order, size.dtype))


def _count(x: CallContext, size: Value, _order: float, over: dict[str, object]) -> Value:
    nonzero = x.cast(x.emit("ne", size, x.scalar(0, size.dtype)), size.dtype)
    return x.emit("sum", nonzero, **over)


# Order -> the norm of absolute values; other orders by powers.
_NORMS: dict[float, Callable[..., Value]] = {
    0.0: _count,
    1.0: lambda x, size, _order, over: x.emit("sum", size, **over),
    2.0: lambda x, size, _order, over: x.emit("sqrt", x.emit("sum", x.emit("mul", size, size), **over)),
    math.inf: lambda x, size, _order, over: x.emit("amax", size, **over),
    -math.inf: lambda x, size, _order, over: x.emit("amin", size, **over),
}


@aten("_cdist_forward", harmless={"compute_mode": "whether a product may stand for the squares, which rounds more"})
def cdist(x: CallContext, x1: Value, x2: Value, p: float) -> Value:
    """The norm of each row of x1 less each row of x2."""
    one = x.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    other = x.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    apart = x.emit("abs", x.emit("sub", one, other))
    return _NORMS.get(p, _sum_of_powers)(x, apart, p, {"axes": (len(apart.shape) - 1,), "keepdims": False})


@aten("linalg_vector_norm", harmless=_DTYPE)
def vector_norm(x: CallContext, self: Value, ord: Number, dim: Dims, keepdim: bool) -> Value:
    """Half precision is widened first: squares of it overflow."""
    wide = "float64" if x.result.dtype == "float64" else "float32"
    value = x.cast(self, wide)
    size = value if ord == 2 else x.emit("abs", value)  # squares have no sign
    over = {"axes": _axes(x, dim, len(self.shape)), "keepdims": keepdim}
    return x.cast(_NORMS.get(float(ord), _sum_of_powers)(x, size, float(ord), over), x.result.dtype)
