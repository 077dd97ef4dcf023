"""Elementwise ops: one, two or three operands that broadcast as in NumPy. NaN and infinities follow torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from engine import dtypes
from engine.ops.check import (
    ANY,
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    broadcast_of,
    cast_array,
    is_float,
    of_dtype,
    of_same_dtype,
    present,
    result,
    rounded,
    widened,
)
from engine.ops.rounding import EXACT, ONCE, Rounding
from engine.ops.special import erf, erfc
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

Infer = Callable[[Types, Attributes], tuple[TensorType, ...]]
Function = Callable[..., np.ndarray]


def _infer(name: str, operands: tuple[str, ...], allowed: frozenset[str], out: str | None) -> Infer:
    """Operands of one common dtype out of `allowed`; the result has it too, or is `out`."""

    def infer(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
        first = of_dtype(name, operands[0], present(name, inputs, 0, operands[0]), allowed)
        rest = [
            of_same_dtype(name, operand, present(name, inputs, position, operand), first.dtype)
            for position, operand in enumerate(operands[1:], 1)
        ]
        return result(name, out or first.dtype, broadcast_of(name, [first, *rest]))

    return infer


def _flops(each: int) -> Callable[[Types, Any, Attributes], int]:
    def flops(_inputs: Types, outputs: Any, _attributes: Attributes) -> int:
        return each * int(outputs[0].size)

    return flops


# --- one operand ------------------------------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) of a float64 array."""
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    """SiLU, x * sigmoid(x), of a float64 array; -inf gives NaN, as in torch."""
    return x / (1 + np.exp(-x))


def gelu_none(x: np.ndarray) -> np.ndarray:
    """GELU, x * Phi(x), of a float64 array, Phi the normal distribution; -inf gives NaN, as in torch."""
    return 0.5 * x * erfc(-x * math.sqrt(0.5))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU's tanh form (Hendrycks and Gimpel 2016) of a float64 array."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def relu(x: np.ndarray) -> np.ndarray:
    """Larger of x and 0; NaN stays NaN."""
    return np.maximum(x, x.dtype.type(0))


def relu6(x: np.ndarray) -> np.ndarray:
    """Between 0 and 6; NaN stays NaN."""
    return np.minimum(relu(x), x.dtype.type(6))


def _sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; NaN gives 0, as in torch."""
    return np.where(np.isnan(x), 0, np.sign(x)) if is_float(x) else np.sign(x)


GELU: dict[str, Function] = {"none": gelu_none, "tanh": gelu_tanh}

# What an activation costs an element, counting exp, tanh and erf as one operation each.
ACTIVATION_FLOPS = {
    "none": 0,
    "relu": 1,
    "relu6": 2,
    "tanh": 1,
    "sigmoid": 4,  # negate, exp, add, divide
    "silu": 4,  # negate, exp, add, divide
    "gelu": 5,  # scale, erf, add, two products
    "gelu_tanh": 9,  # two products for the cube, scale, add, scale, tanh, add, two products
}


def _unary(
    name: str, function: Function, allowed: frozenset[str], doc: str, flops: int = 1, rounding: Rounding = ONCE
) -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        return rounded(function, x)

    declare(
        Op(
            name,
            "pointwise",
            ("x",),
            _infer(name, ("x",), allowed, None),
            reference,
            flops=_flops(flops),
            inplace=(0,),
            rounding=rounding,
            doc=doc,
        )
    )


def _test(name: str, function: Function, allowed: frozenset[str], doc: str) -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(widened(x)), dtype=np.bool_)

    infer = _infer(name, ("x",), allowed, "bool")
    declare(Op(name, "pointwise", ("x",), infer, reference, flops=_flops(1), inplace=(0,), rounding=EXACT, doc=doc))


_unary("neg", np.negative, NUMBERS, "-x", rounding=EXACT)
_unary("abs", np.abs, NUMBERS, "|x|", rounding=EXACT)
_unary("sign", _sign, NUMBERS, "-1, 0 or 1; NaN gives 0", rounding=EXACT)
_unary("exp", np.exp, FLOATS, "e to the power x")
_unary("expm1", np.expm1, FLOATS, "exp(x) - 1, exact near 0")
_unary("log", np.log, FLOATS, "natural logarithm")
_unary("log1p", np.log1p, FLOATS, "log(1 + x), exact near 0")
_unary("sqrt", np.sqrt, FLOATS, "square root")
_unary("rsqrt", lambda x: 1 / np.sqrt(x), FLOATS, "1 / sqrt(x)", 2)
_unary("reciprocal", lambda x: 1 / x, FLOATS, "1 / x")
_unary("exp2", np.exp2, FLOATS, "2 to the power x")
_unary("log2", np.log2, FLOATS, "logarithm to the base 2")
_unary("log10", np.log10, FLOATS, "logarithm to the base 10")
_unary("sin", np.sin, FLOATS, "sine")
_unary("cos", np.cos, FLOATS, "cosine")
_unary("tan", np.tan, FLOATS, "tangent")
_unary("asin", np.arcsin, FLOATS, "angle in [-pi/2, pi/2] of that sine; NaN beyond [-1, 1]")
_unary("acos", np.arccos, FLOATS, "angle in [0, pi] of that cosine; NaN beyond [-1, 1]")
_unary("atan", np.arctan, FLOATS, "angle in [-pi/2, pi/2] of that tangent")
_unary("sinh", np.sinh, FLOATS, "hyperbolic sine")
_unary("cosh", np.cosh, FLOATS, "hyperbolic cosine")
_unary("tanh", np.tanh, FLOATS, "hyperbolic tangent")
_unary("asinh", np.arcsinh, FLOATS, "inverse of sinh")
_unary("acosh", np.arccosh, FLOATS, "inverse of cosh; NaN below 1")
_unary("atanh", np.arctanh, FLOATS, "inverse of tanh; NaN beyond [-1, 1]")
_unary("sigmoid", sigmoid, FLOATS, "1 / (1 + exp(-x))", ACTIVATION_FLOPS["sigmoid"])
_unary("erf", erf, FLOATS, "error function")
_unary("erfc", erfc, FLOATS, "1 - erf(x), exact for large x")
_unary("relu", relu, NUMBERS, "max(x, 0)", rounding=EXACT)
_unary("silu", silu, FLOATS, "x * sigmoid(x)", ACTIVATION_FLOPS["silu"])
_unary("floor", np.floor, FLOATS, "largest integer <= x", rounding=EXACT)
_unary("ceil", np.ceil, FLOATS, "smallest integer >= x", rounding=EXACT)
_unary("round", np.rint, FLOATS, "nearest integer, ties to even", rounding=EXACT)
_unary("trunc", np.trunc, FLOATS, "x without its fraction", rounding=EXACT)


def _gelu_reference(x: np.ndarray, approximate: str) -> np.ndarray:
    return rounded(GELU[approximate], x)


def _gelu_flops(_inputs: Types, outputs: Any, attributes: Attributes) -> int:
    form = "gelu" if attributes["approximate"] == "none" else "gelu_tanh"
    return ACTIVATION_FLOPS[form] * int(outputs[0].size)


declare(
    Op(
        "gelu",
        "pointwise",
        ("x",),
        _infer("gelu", ("x",), FLOATS, None),
        _gelu_reference,
        {"approximate": Attribute("choice", "none", ("none", "tanh"))},
        flops=_gelu_flops,
        inplace=(0,),
        doc="x times the normal distribution's Phi(x), exact or by its tanh form",
    )
)
_test("logical_not", lambda x: x == 0, ANY, "true where x is zero")
_unary("bitwise_not", np.invert, INTS | BOOL, "every bit inverted; logical for bool", rounding=EXACT)
_test("isnan", np.isnan, FLOATS, "true where x is NaN")
_test("isinf", np.isinf, FLOATS, "true where x is +inf or -inf")


def _infer_cast(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("cast", "x", present("cast", inputs, 0, "x"), ANY)
    return result("cast", attributes["dtype"], x.shape)


def _cast_reference(x: np.ndarray, dtype: str) -> np.ndarray:
    return np.array(cast_array(x, dtypes.dtype(dtype).numpy))


declare(
    Op(
        "cast",
        "pointwise",
        ("x",),
        _infer_cast,
        _cast_reference,
        {"dtype": Attribute("dtype")},
        inplace=(0,),
        doc="x in another element type: float to integer cuts off, anything but zero is true; "
        "NaN and what does not fit in an integer give any value",
    )
)


# --- two operands -----------------------------------------------------------------------------------------------


def _nonzero_divisor(name: str, b: np.ndarray) -> None:
    if not is_float(b) and not np.all(b):
        raise ZeroDivisionError(f"{name}: integer division by zero")


def _floor_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _nonzero_divisor("floor_div", b)
    return np.floor_divide(a, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _nonzero_divisor("remainder", b)
    return np.remainder(a, b)


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _nonzero_divisor("fmod", b)
    return np.fmod(a, b)


def _in_width(a: np.ndarray, bits: np.ndarray) -> np.ndarray:
    return (bits >= 0) & (bits < 8 * a.itemsize)


def _shift_left(a: np.ndarray, bits: np.ndarray) -> np.ndarray:
    inside = _in_width(a, bits)
    return np.where(inside, np.left_shift(a, np.where(inside, bits, 0)), 0).astype(a.dtype)


def _shift_right(a: np.ndarray, bits: np.ndarray) -> np.ndarray:
    inside = _in_width(a, bits)
    return np.where(inside, np.right_shift(a, np.where(inside, bits, 0)), np.where(a < 0, -1, 0)).astype(a.dtype)


def _pow(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Floats as C's pow; an integer to a negative power is 0, save for the bases 1 and -1, as in torch."""
    if is_float(base):
        return np.power(base, exponent)
    base, exponent = np.broadcast_arrays(base, exponent)
    ordinary = np.power(base, np.maximum(exponent, 0))
    odd = np.where(exponent % 2 == 0, 1, base)
    return np.where(exponent >= 0, ordinary, np.where(np.abs(base) == 1, odd, 0)).astype(base.dtype)


def _binary(name: str, function: Function, allowed: frozenset[str], doc: str, rounding: Rounding = ONCE) -> None:
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rounded(function, a, b)

    infer = _infer(name, ("a", "b"), allowed, None)
    how: dict[str, Any] = {"flops": _flops(1), "inplace": (0, 1), "rounding": rounding, "doc": doc}
    declare(Op(name, "pointwise", ("a", "b"), infer, reference, **how))


def _relation(name: str, function: Function, doc: str) -> None:
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(widened(a), widened(b)), dtype=np.bool_)

    infer = _infer(name, ("a", "b"), ANY, "bool")
    how: dict[str, Any] = {"flops": _flops(1), "inplace": (0, 1), "rounding": EXACT, "doc": doc}
    declare(Op(name, "pointwise", ("a", "b"), infer, reference, **how))


_binary("add", np.add, ANY, "a + b; or for bool")
_binary("sub", np.subtract, NUMBERS, "a - b")
_binary("mul", np.multiply, ANY, "a * b; and for bool")
_binary("div", np.divide, FLOATS, "a / b")
_binary("floor_div", _floor_div, NUMBERS, "floor(a / b); an integer divided by zero is an error")
_binary("remainder", _remainder, NUMBERS, "a - b * floor(a / b), with the sign of b; an integer by zero is an error")
_binary("fmod", _fmod, NUMBERS, "remainder of a / b with the sign of a; an integer by zero is an error", EXACT)
_binary("atan2", np.arctan2, FLOATS, "angle in [-pi, pi] of the point (b, a)")
_binary("copysign", np.copysign, FLOATS, "|a| with the sign of b, that of a zero too", EXACT)
_binary("pow", _pow, NUMBERS, "a to the power b")
_binary("maximum", np.maximum, ANY, "the larger one; NaN wins", EXACT)
_binary("minimum", np.minimum, ANY, "the smaller one; NaN wins", EXACT)
_relation("eq", np.equal, "a == b")
_relation("ne", np.not_equal, "a != b")
_relation("lt", np.less, "a < b")
_relation("le", np.less_equal, "a <= b")
_relation("gt", np.greater, "a > b")
_relation("ge", np.greater_equal, "a >= b")
_relation("logical_and", np.logical_and, "both are not zero")
_relation("logical_or", np.logical_or, "one at least is not zero")
_relation("logical_xor", np.logical_xor, "exactly one is not zero")
_binary("bitwise_and", np.bitwise_and, INTS | BOOL, "a & b", EXACT)
_binary("bitwise_or", np.bitwise_or, INTS | BOOL, "a | b", EXACT)
_binary("bitwise_xor", np.bitwise_xor, INTS | BOOL, "a ^ b", EXACT)
_binary("shift_left", _shift_left, INTS, "a * 2^b; 0 where b is negative or no less than a's bits", EXACT)
_binary(
    "shift_right", _shift_right, INTS, "floor(a / 2^b); 0 or -1 by a's sign where b is negative or too large", EXACT
)


# --- three operands ---------------------------------------------------------------------------------------------


def _infer_where(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    condition = of_dtype("where", "condition", present("where", inputs, 0, "condition"), BOOL)
    a = of_dtype("where", "a", present("where", inputs, 1, "a"), ANY)
    b = of_same_dtype("where", "b", present("where", inputs, 2, "b"), a.dtype)
    return result("where", a.dtype, broadcast_of("where", [condition, a, b]))


declare(
    Op(
        "where",
        "pointwise",
        ("condition", "a", "b"),
        _infer_where,
        np.where,
        flops=_flops(1),
        inplace=(1, 2),
        rounding=EXACT,
        doc="a where the condition holds, else b",
    )
)
