"""Activations as integers: with one scale and one zero point, both known when the program is made, or a scale a row.

    q = clip(round(x / scale) + zero)        x and scale in float32, the quotient rounded to float32, then half to even
    x = (q - zero) * scale                   exact in float64, rounded once to the result's type

The quotient is rounded before the zero point is added, as ONNX and torch's exported models do it; rounded after that,
an odd zero point would send ties the other way. The range is the whole range of the integer type. An infinity gives the
end of the range. NaN, which no integer can say, gives `zero`, which stands for 0. `scale` is rounded to float32, so
both ops read the same number.

`quantize_rows` looks at the numbers, when it runs, for the scale of each row x (all elements of the last axis):

    scale = max(max(|x|) / 127, 2^-126)      q = round(x * (1 / scale))      steps in float32, then half to even

So q is within +-127, and a row of zeros is zeros. A row with an infinity or a NaN gives zeros and a scale of NaN, which
makes NaN of whatever is multiplied by it.

Passes do not compute `quantize` or `dequantize` of constants: that would discard a float constant, or store floats in
place of integers. They do not remove a pair either, which would drop a rounding that the user has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine import dtypes
from engine.ops.check import FLOATS, cast_array, of_dtype, of_rank, present, result, wrong
from engine.ops.rounding import RESULT, Rounding
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

INTEGERS = frozenset({"int8", "uint8"})
QUANTIZE_FLOPS = 5  # an element: divide, round, add, two comparisons
DEQUANTIZE_FLOPS = 2  # an element: subtract, multiply
ROWS_FLOPS = 3  # an element: a comparison, multiply, round
LEAST_SCALE = np.float32(2.0**-126)  # whose reciprocal is finite


def limits(dtype: str) -> tuple[int, int]:
    """Least and largest integer of `dtype`."""
    found = np.iinfo(dtypes.dtype(dtype).numpy)
    return int(found.min), int(found.max)


def _check_grid(op: str, integer: str, attributes: Attributes) -> None:
    """ValueError unless scale and zero point are usable for integers of type `integer`."""
    scale, zero = attributes["scale"], attributes["zero"]
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(scale)
    if not (np.isfinite(single) and single > 0):
        raise wrong(op, "a scale that is finite and above 0 in float32", scale)
    least, most = limits(integer)
    if not least <= zero <= most:
        raise wrong(op, f"a zero point from {least} to {most}, the range of {integer}", zero)


def _infer_quantize(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("quantize", "x", present("quantize", inputs, 0, "x"), FLOATS)
    if attributes["dtype"] not in INTEGERS:
        raise wrong("quantize", "dtype int8 or uint8", attributes["dtype"])
    _check_grid("quantize", attributes["dtype"], attributes)
    return result("quantize", attributes["dtype"], x.shape)


def _quantize_reference(x: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    least, most = limits(dtype)
    with np.errstate(all="ignore"):
        steps = np.rint(x.astype(np.float32) / np.float32(scale))
        # Clipped before zero is added, where all numbers are small and the sum is exact.
        steps = np.where(np.isnan(steps), 0, np.clip(steps, least - zero, most - zero))
        return cast_array(steps + zero, dtypes.dtype(dtype).numpy)


def _infer_dequantize(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("dequantize", "x", present("dequantize", inputs, 0, "x"), INTEGERS)
    if attributes["dtype"] not in FLOATS:
        raise wrong("dequantize", "dtype of a float", attributes["dtype"])
    _check_grid("dequantize", x.dtype, attributes)
    return result("dequantize", attributes["dtype"], x.shape)


def _dequantize_reference(x: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    wide = (x.astype(np.float64) - zero) * np.float64(np.float32(scale))
    return cast_array(wide, dtypes.dtype(dtype).numpy)


def _flops(each: int) -> Callable[[Types, Sequence[TensorType], Attributes], int]:
    def flops(_inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
        return each * outputs[0].size

    return flops


def _grid(dtype: str) -> dict[str, Attribute]:
    return {"scale": Attribute("float"), "zero": Attribute("int", 0), "dtype": Attribute("dtype", dtype)}


def quantised_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`x` [..., K] as int8 with a float32 scale [..., 1] for each row, as the module's text says."""
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        most = np.abs(x).max(-1, keepdims=True, initial=0)
        is_finite = np.isfinite(most)
        scale = np.maximum(most / np.float32(127), LEAST_SCALE)
        data = np.where(is_finite, np.rint(x * (np.float32(1) / scale)), 0).astype(np.int8)
        return data, np.where(is_finite, scale, np.float32(np.nan))


def _infer_rows(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("quantize_rows", "x", present("quantize_rows", inputs, 0, "x"), frozenset({"float32"}))
    of_rank("quantize_rows", "x", x, 1)
    return TensorType("int8", x.shape), TensorType("float32", (*x.shape[:-1], 1))


declare(
    Op(
        "quantize_rows",
        "quantize",
        ("x",),
        _infer_rows,
        quantised_rows,
        flops=_flops(ROWS_FLOPS),
        rounding=Rounding((RESULT,), {"float32": "float32"}),
        doc="(q, scale) of each row of the last axis: scale = max(max(|x|) / 127, 2^-126), q = round(x * (1 / scale)), "
        "half to even; zeros and a scale of NaN where a number of the row is not finite; x float32, q int8",
    )
)
declare(
    Op(
        "quantize",
        "quantize",
        ("x",),
        _infer_quantize,
        _quantize_reference,
        _grid("int8"),
        flops=_flops(QUANTIZE_FLOPS),
        rounding=Rounding((RESULT,), dict.fromkeys(FLOATS, "float32")),
        has_kernels=False,
        doc="clip(round(x / scale) + zero) in dtype int8 or uint8: x / scale in float32, half to even; NaN gives zero",
    )
)
declare(
    Op(
        "dequantize",
        "quantize",
        ("x",),
        _infer_dequantize,
        _dequantize_reference,
        _grid("float32"),
        flops=_flops(DEQUANTIZE_FLOPS),
        has_kernels=False,
        doc="(x - zero) * scale of int8 or uint8, exact, rounded once to dtype",
    )
)
