"""Elementwise calls: arithmetic, comparisons, logic, choice, casts. Most are rows of a table.

Operands are cast to the type that torch computes in, which is the result's for arithmetic and the operands' common
one for comparisons; Python numbers become constants of that type.
"""

from __future__ import annotations

import math

import torch

from engine import dtypes
from engine.exporter.context import CallContext, Number, Operand, torch_dtype
from engine.exporter.handlers import FROM_META, aten
from engine.graph import Value
from engine.sizes import same


def _is_float(dtype: str) -> bool:
    return dtypes.dtype(dtype).kind == "float"


# --- one operand ------------------------------------------------------------------------------------------------

IN_RESULT_TYPE = (
    *("neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh"),
    *("exp2", "log2", "log10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("sigmoid", "erf", "erfc", "relu", "silu", "bitwise_not"),
)
ROUNDINGS = ("floor", "ceil", "round", "trunc")
TESTS = ("isnan", "isinf")


def _unary(op: str) -> None:
    @aten(op)
    def translate(x: CallContext, self: Value) -> Value:
        return x.emit(op, x.cast(self, x.result.dtype))


def _rounding(op: str) -> None:
    @aten(op)
    def translate(x: CallContext, self: Value) -> Value:
        return x.emit(op, self) if _is_float(self.dtype) else self  # an integer is its own rounding


def _test(op: str) -> None:
    @aten(op)
    def translate(x: CallContext, self: Value) -> Value:
        return x.emit(op, self if _is_float(self.dtype) else x.cast(self, "float32"))  # integers are neither


for _op in IN_RESULT_TYPE:
    _unary(_op)
for _op in ROUNDINGS:
    _rounding(_op)
for _op in TESTS:
    _test(_op)


@aten("logical_not")
def logical_not(x: CallContext, self: Value) -> Value:
    return x.emit("logical_not", self)


@aten("square")
def square(x: CallContext, self: Value) -> Value:
    value = x.cast(self, x.result.dtype)
    return x.emit("mul", value, value)


# --- two operands -----------------------------------------------------------------------------------------------

_KINDS = ("Tensor", "Scalar", "Scalar_Tensor")
PRODUCTS = {  # ATen overload -> op, computed in the result's type, with numbers as `CallContext.arithmetic` takes them
    **{f"mul.{kind}": "mul" for kind in ("Tensor", "Scalar")},
    **dict.fromkeys(("floor_divide", "floor_divide.Scalar"), "floor_div"),
}
ARITHMETIC = {  # ATen overload -> op, computed in the result's type
    **{f"remainder.{kind}": "remainder" for kind in _KINDS},
    **{f"{name}.{kind}": name for name in ("fmod", "copysign") for kind in ("Tensor", "Scalar")},
    **{name: name for name in ("atan2", "maximum", "minimum")},
    "max.other": "maximum",
    "min.other": "minimum",
    **{f"bitwise_{name}.{kind}": f"bitwise_{name}" for name in ("and", "or", "xor") for kind in _KINDS},
    **{f"__{name}__.{kind}": f"bitwise_{name}" for name in ("and", "or", "xor") for kind in ("Tensor", "Scalar")},
}
SHIFTS = {
    **{
        f"bitwise_{side}_shift.{kind}": f"shift_{side}"
        for side in ("left", "right")
        for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    },
    **{f"__{side[0]}shift__.{kind}": f"shift_{side}" for side in ("left", "right") for kind in ("Tensor", "Scalar")},
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
LOGICAL = ("logical_and", "logical_or", "logical_xor")


def _product(name: str, op: str) -> None:
    @aten(name)
    def translate(x: CallContext, self: Operand, other: Operand) -> Value:
        return x.arithmetic(op, self, other, x.result.dtype)


def _arithmetic(name: str, op: str) -> None:
    @aten(name)
    def translate(x: CallContext, self: Operand, other: Operand) -> Value:
        dtype = x.result.dtype
        return x.emit(op, x.cast(self, dtype), x.cast(other, dtype))


def _comparison(op: str) -> None:
    @aten(f"{op}.Tensor", f"{op}.Scalar")
    def translate(x: CallContext, self: Operand, other: Operand) -> Value:
        dtype = x.common_dtype(self, other)
        return x.emit(op, x.cast(self, dtype), x.cast(other, dtype))


def _logical(op: str) -> None:
    @aten(op)
    def translate(x: CallContext, self: Value, other: Value) -> Value:
        return x.emit(op, x.cast(self, "bool"), x.cast(other, "bool"))


for _name, _op in PRODUCTS.items():
    _product(_name, _op)
for _name, _op in (*ARITHMETIC.items(), *SHIFTS.items()):
    _arithmetic(_name, _op)
for _op in COMPARISONS:
    _comparison(_op)
for _op in LOGICAL:
    _logical(_op)


def _extreme_of_numbers(name: str, op: str) -> None:
    @aten(name)
    def translate(x: CallContext, self: Value, other: Value) -> Value:
        """Where one is NaN the other."""
        a, b = x.cast(self, x.result.dtype), x.cast(other, x.result.dtype)
        y = x.emit(op, a, b)
        if not _is_float(y.dtype):
            return y
        return x.emit("where", x.emit("isnan", a), b, x.emit("where", x.emit("isnan", b), a, y))


_extreme_of_numbers("fmax", "maximum")
_extreme_of_numbers("fmin", "minimum")


def _times(x: CallContext, operand: Operand, alpha: Number) -> Value:
    value = x.cast(operand, x.result.dtype)
    return value if same(alpha, 1) else x.emit("mul", value, x.scalar(alpha, value.dtype))


@aten("add.Tensor", "add.Scalar")
def add(x: CallContext, self: Operand, other: Operand, alpha: Number) -> Value:
    return x.emit("add", x.cast(self, x.result.dtype), _times(x, other, alpha))


@aten("sub.Tensor", "sub.Scalar")
def sub(x: CallContext, self: Operand, other: Operand, alpha: Number) -> Value:
    return x.emit("sub", x.cast(self, x.result.dtype), _times(x, other, alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(x: CallContext, self: Operand, other: Operand, alpha: Number) -> Value:
    """The difference other - alpha * self."""
    return x.emit("sub", x.cast(other, x.result.dtype), _times(x, self, alpha))


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def div(x: CallContext, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    dtype = x.result.dtype
    if rounding_mode is None:
        return x.arithmetic("div", self, other, dtype)
    if rounding_mode == "floor":
        return x.arithmetic("floor_div", self, other, dtype)
    if rounding_mode != "trunc":
        x.refuse(f"rounding_mode {rounding_mode!r}")
    if not _is_float(dtype):
        return _truncated_quotient(x, x.cast(self, dtype), x.cast(other, dtype))
    # Torch rounds the quotient of tensors to their type before, and that of a tensor and a number behind.
    wide = "float32" if dtype in dtypes.HALVES and not isinstance(other, Value) else dtype
    return x.cast(x.emit("trunc", x.emit("div", x.cast(self, wide), x.cast(other, wide))), dtype)


def _truncated_quotient(x: CallContext, a: Value, b: Value) -> Value:
    """Integer division towards zero: the floor, and one more where it fell below zero and left a remainder."""
    zero = x.scalar(0, a.dtype)
    left = x.emit("ne", x.emit("remainder", a, b), zero)
    negative = x.emit("logical_xor", x.emit("lt", a, zero), x.emit("lt", b, zero))
    short = x.emit("logical_and", left, negative)
    return x.emit("add", x.emit("floor_div", a, b), x.emit("cast", short, dtype=a.dtype))


ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}  # so torch computes these powers, and it differs from pow for -0 and -inf


@aten("pow.Tensor_Tensor", "pow.Scalar", "pow.Tensor_Scalar")
def power(x: CallContext, self: Operand, exponent: Operand) -> Value:
    dtype = x.result.dtype
    base = x.cast(self, dtype)
    if not isinstance(exponent, Value):
        if exponent < 0 and not _is_float(dtype):
            x.refuse("an integer to a negative power, which torch refuses too")
        if exponent in ROOTS:
            return x.emit(ROOTS[exponent], base)
    return x.emit("pow", base, x.cast(exponent, dtype))


# --- limits and choice ------------------------------------------------------------------------------------------


@aten(
    *(f"{name}{which}" for name in ("clamp", "clamp_min", "clamp_max") for which in ("", ".Tensor")),
    "hardtanh",
    renamed={"min_val": "min", "max_val": "max"},
)
def clamp(x: CallContext, self: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """The value, no lower than `min`, then no higher than `max`; NaN in any of them wins."""
    dtype = x.result.dtype
    y = x.cast(self, dtype)
    if min is not None:
        y = x.emit("maximum", y, x.cast(min, dtype))
    return y if max is None else x.emit("minimum", y, x.cast(max, dtype))


@aten("relu6")
def relu6(x: CallContext, self: Value) -> Value:
    return clamp(x, self, 0, 6)


@aten("nan_to_num")
def nan_to_num(
    x: CallContext, self: Value, nan: Number | None = None, posinf: Number | None = None, neginf: Number | None = None
) -> Value:
    """Infinities become the ends of the type, or what is given; NaN becomes `nan`."""
    if not _is_float(self.dtype):
        return self
    ends = torch.finfo(torch_dtype(self.dtype))
    y = clamp(x, self, ends.min, ends.max)
    for number, infinity in ((posinf, math.inf), (neginf, -math.inf)):
        if number is not None:
            y = x.emit("where", x.emit("eq", self, x.scalar(infinity, self.dtype)), x.scalar(number, self.dtype), y)
    return x.emit("where", x.emit("ne", self, self), x.scalar(nan or 0, self.dtype), y)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(x: CallContext, condition: Value, self: Operand, other: Operand) -> Value:
    dtype = x.result.dtype
    return x.emit("where", x.cast(condition, "bool"), x.cast(self, dtype), x.cast(other, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: CallContext, self: Value, mask: Value, value: Operand) -> Value:
    return x.emit("where", mask, x.cast(value, self.dtype), self)


# --- casts ------------------------------------------------------------------------------------------------------


@aten(
    *("to.dtype", "to.device", "to.dtype_layout", "to.other", "type_as", "_to_copy"),
    harmless={"dtype": FROM_META, "other": FROM_META},
)
def to(x: CallContext, self: Value) -> Value:
    return x.cast(self, x.result.dtype)
