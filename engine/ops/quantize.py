"""Activations as integers with one scale and one zero point, both known when the program is made.

    q = clip(round(x / scale) + zero)        x and scale in float32, the quotient rounded to float32, then half to even
    x = (q - zero) * scale                   exact in float64, rounded once to the result's type

The quotient is rounded before the zero point is added, as ONNX and torch's exported models do it; rounded after that,
an odd zero point would send ties the other way. The range is the whole range of the integer type. An infinity gives the
end of the range. NaN, which no integer can say, gives `zero`, which stands for 0. `scale` is rounded to float32, so
both ops read the same number.

Passes do not compute `quantize` or `dequantize` of constants: that would discard a float constant, or store floats in
place of integers. They do not remove a pair either, which would drop a rounding that the user has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine import dtypes
from engine.ops.check import FLOATS, cast_array, of_dtype, present, result, wrong
from engine.ops.rounding import RESULT, Rounding
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

INTEGERS = frozenset({"int8", "uint8"})
QUANTIZE_FLOPS = 5  # an element: divide, round, add, two comparisons
DEQUANTIZE_FLOPS = 2  # an element: subtract, multiply


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
