"""Functions that kernels of several families use. All take and return float32 or float64."""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    """Hyperbolic tangent by the sigmoid beyond |x| = 0.25, and by a polynomial below, where that would cancel."""
    square = x * x
    small = x * (
        1.0 + square * (-0.33333333333 + square * (0.13333333333 + square * (-0.05396825397 + square * 0.0218694885)))
    )
    large = 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0
    return tl.where(square < 0.0625, small, large)


@triton.jit
def gelu(x):
    """x * Phi(x), Phi the normal distribution."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def gelu_tanh(x):
    """The tanh form of GELU (Hendrycks and Gimpel 2016)."""
    return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@triton.jit
def relu(x):
    """The larger of x and 0; NaN stays NaN."""
    return tl.where(x < 0.0, 0.0, x)


@triton.jit
def activate(x, NAME: tl.constexpr):
    """The activation NAME of `engine.ops.matmul.ACTIVATIONS`."""
    if NAME == "relu":
        x = relu(x)
    elif NAME == "relu6":
        x = tl.where(x > 6.0, 6.0, relu(x))
    elif NAME == "gelu":
        x = gelu(x)
    elif NAME == "gelu_tanh":
        x = gelu_tanh(x)
    elif NAME == "silu":
        x = x * sigmoid(x)
    elif NAME == "tanh":
        x = tanh(x)
    elif NAME == "sigmoid":
        x = sigmoid(x)
    return x


@triton.jit
def widen(x):
    """float32, or float64 for float64."""
    if x.dtype == tl.float64:
        return x
    else:
        return x.to(tl.float32)


@triton.jit
def sqrt(x):
    """Square root, rounded correctly."""
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    else:
        return tl.sqrt_rn(x.to(tl.float32))


@triton.jit
def divide(a, b):
    """a / b, rounded correctly."""
    if b.dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a + tl.zeros_like(b), b)


@triton.jit
def expm1(x):
    """exp(x) - 1; near 0 by 2t / (1 - t) with t = tanh(x / 2), which subtracts no numbers that are nearly equal."""
    half = tanh(0.5 * x)
    return tl.where(tl.abs(x) < 0.5, 2.0 * half / (1.0 - half), tl.exp(x) - 1.0)


@triton.jit
def log1p(x):
    """log(1 + x); what the rounding of 1 + x loses is added as the first term of its series."""
    whole = 1.0 + x
    lost = tl.where((tl.abs(x) < 1.0) & (whole > 0.0), (x - (whole - 1.0)) / whole, 0.0)
    return tl.log(whole) + lost


@triton.jit
def trunc(x):
    """x without its fraction."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def round_even(x):
    """The nearest integer, ties to even."""
    down = tl.floor(x)
    rest = x - down
    is_odd = down - 2.0 * tl.floor(0.5 * down) != 0.0
    return tl.where((rest > 0.5) | ((rest == 0.5) & is_odd), down + 1.0, down)


@triton.jit
def power(base, exponent):
    """base to the power exponent as C's pow, by 2 ** (exponent * log2(|base|))."""
    size = tl.abs(base)
    made = tl.exp2(exponent * tl.log2(size))
    made = tl.where(size == 1.0, 1.0, made)
    is_integer = tl.floor(exponent) == exponent
    is_odd = is_integer & (exponent - 2.0 * tl.floor(0.5 * exponent) != 0.0)
    made = tl.where((base < 0.0) & is_odd, -made, made)
    made = tl.where((base < 0.0) & (size < float("inf")) & (size != 1.0) & ~is_integer, float("nan"), made)
    made = tl.where((base == -1.0) & ~is_integer, float("nan"), made)
    return tl.where((exponent == 0.0) | (base == 1.0), 1.0, made)
