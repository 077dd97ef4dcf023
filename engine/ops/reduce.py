"""Reductions over axes, positions of extremes, and running sums. `axes=()` reduces nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.ops.check import ANY, FLOATS, NUMBERS, axis_of, of_dtype, present, result, rounded, widened, wrong
from engine.ops.rounding import EXACT, ONCE, Rounding
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

Infer = Callable[[Types, Attributes], tuple[TensorType, ...]]
_AXES = {"axes": Attribute("axes"), "keepdims": Attribute("bool", False)}


def _reduced(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def _infer(name: str, allowed: frozenset[str], out: str | None = None, *, empty: bool = True) -> Infer:
    """Shape rule of a reduction over `axes` (or `axis`); `empty`: whether no element at all has a result."""

    def infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        x = of_dtype(name, "x", present(name, inputs, 0, "x"), allowed)
        axes = attributes["axes"] if "axes" in attributes else (attributes["axis"],)
        for axis in axes:
            axis_of(name, axis, x)
        if not empty and any(x.shape[axis] == 0 for axis in axes):
            raise wrong(name, "at least one element to reduce", f"{x} over axes {list(axes)}")
        return result(name, out or x.dtype, _reduced(x.shape, axes, attributes["keepdims"]))

    return infer


def _flops(each: int) -> Callable[[Types, Sequence[TensorType], Attributes], int]:
    """`each` operations an element of the input."""

    def flops(inputs: Types, _outputs: Sequence[TensorType], _attributes: Attributes) -> int:
        return each * present("reduction", inputs, 0, "x").size

    return flops


def _count(x: np.ndarray, axes: tuple[int, ...]) -> np.float64:
    return np.float64(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))


def _mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return np.sum(x, axis=axes, keepdims=keepdims) / _count(x, axes)


def _declare(name: str, function: Callable[..., Any], infer: Infer, doc: str, rounding: Rounding = ONCE) -> None:
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        return np.array(rounded(lambda wide: function(wide, axes, keepdims), x))

    declare(Op(name, "reduce", ("x",), infer, reference, _AXES, flops=_flops(1), rounding=rounding, doc=doc))


def _of_ufunc(function: np.ufunc) -> Callable[[np.ndarray, tuple[int, ...], bool], np.ndarray]:
    """The reduction in the array's own type (np.sum would widen small integers)."""
    return lambda x, axes, keepdims: np.asarray(function.reduce(x, axis=axes, dtype=x.dtype, keepdims=keepdims))


_declare("sum", _of_ufunc(np.add), _infer("sum", NUMBERS), "sum; 0 of nothing; integers wrap")
_declare("mean", _mean, _infer("mean", FLOATS), "arithmetic mean; NaN of nothing")
_declare("prod", _of_ufunc(np.multiply), _infer("prod", NUMBERS), "product; 1 of nothing; integers wrap")
_declare("amax", _of_ufunc(np.maximum), _infer("amax", NUMBERS, empty=False), "largest element; NaN wins", EXACT)
_declare("amin", _of_ufunc(np.minimum), _infer("amin", NUMBERS, empty=False), "smallest element; NaN wins", EXACT)


def _declare_test(name: str, function: Callable[..., Any], doc: str) -> None:
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        return np.array(function(widened(x) != 0, axis=axes, keepdims=keepdims))

    infer = _infer(name, ANY, "bool")
    declare(Op(name, "reduce", ("x",), infer, reference, _AXES, flops=_flops(1), rounding=EXACT, doc=doc))


_declare_test("any", np.any, "true where one element at least is not zero")
_declare_test("all", np.all, "true where no element is zero")


def _declare_position(name: str, function: Callable[..., Any], doc: str) -> None:
    def reference(x: np.ndarray, axis: int, keepdims: bool) -> np.ndarray:
        return np.array(function(widened(x), axis=axis, keepdims=keepdims), dtype=np.int64)

    declare(
        Op(
            name,
            "reduce",
            ("x",),
            _infer(name, NUMBERS, "int64", empty=False),
            reference,
            {"axis": Attribute("axis"), "keepdims": Attribute("bool", False)},
            flops=_flops(1),
            rounding=EXACT,
            doc=doc,
        )
    )


_declare_position("argmax", np.argmax, "position of the largest element, the first of equals; NaN wins")
_declare_position("argmin", np.argmin, "position of the smallest element, the first of equals; NaN wins")


def _infer_var(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    if math.isnan(attributes["correction"]):
        raise wrong("var", "a correction that is a number", attributes["correction"])
    return _infer("var", FLOATS)(inputs, attributes)


def _var_reference(x: np.ndarray, axes: tuple[int, ...], correction: float, keepdims: bool) -> np.ndarray:
    def variance(wide: np.ndarray) -> np.ndarray:
        centred = wide - _mean(wide, axes, True)
        divisor = np.maximum(_count(wide, axes) - correction, 0.0)
        return np.asarray(np.sum(centred * centred, axis=axes, keepdims=keepdims) / divisor)

    return np.array(rounded(variance, x))


declare(
    Op(
        "var",
        "reduce",
        ("x",),
        _infer_var,
        _var_reference,
        {"axes": Attribute("axes"), "correction": Attribute("float", 1.0), "keepdims": Attribute("bool", False)},
        flops=_flops(4),  # add for the mean, subtract, square, add
        doc="sum of squared distances from the mean over max(n - correction, 0)",
    )
)


def _declare_running(name: str, function: np.ufunc, doc: str) -> None:
    def infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        x = of_dtype(name, "x", present(name, inputs, 0, "x"), NUMBERS)
        axis_of(name, attributes["axis"], x)
        return result(name, x.dtype, x.shape)

    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        return rounded(lambda wide: function.accumulate(wide, axis=axis, dtype=wide.dtype), x)

    declare(Op(name, "reduce", ("x",), infer, reference, {"axis": Attribute("axis")}, flops=_flops(1), doc=doc))


_declare_running("cumsum", np.add, "running sum along an axis; integers wrap")
_declare_running("cumprod", np.multiply, "running product along an axis; integers wrap")
