"""In which numbers products are computed and summed: the attribute `compute` of `linear` and its relatives.

``element``   the elements as they are, in float64. A kernel sums in float32 or wider.
``bfloat16``  both factors rounded to bfloat16, half to even, then as ``element``; products are exact in float32.
``int8``      of `linear` and `gated_linear`: bytes with scales, and integers are summed exactly.

For ``int8`` the first factor is what `quantize_rows` makes: bytes, and a scale for each row. The second factor is a
constant, stored as bytes with a scale for each column. Then, in float32, in this order, each step rounded:

    y = float32(sum over k of q(row, k) * w(k, column)) * scale(column) * scale(row)

`alpha`, bias and residual follow in float32, too, and kernels make the same bits up to there. The sum fits int32, so it
does not matter that a kernel's partial sums may wrap.
"""

from __future__ import annotations

import numpy as np

from engine import dtypes, sizes
from engine.encodings import INT8_CHANNEL, Stored
from engine.ops.check import FLOATS, of_dtype, of_same_dtype, of_shape, optional, present, widened, wrong
from engine.ops.table import Attribute, Attributes, TensorType, Types

COMPUTE = Attribute("choice", "element", ("element", "bfloat16", "int8"))
FLOAT_COMPUTE = Attribute("choice", "element", COMPUTE.choices[:2])
MOST_SUMMED = (2**31 - 1) // (127 * 128)
"""Products of a byte within +-127 and any other byte whose sum always fits int32."""


def product(
    x: np.ndarray,
    weight: np.ndarray | Stored,
    compute: str,
    *,
    transposed: bool,
    scale: np.ndarray | None = None,
) -> np.ndarray:
    """X [..., M, K] or [K] times weight [..., K, N] ([..., N, K] if `transposed`), in float64 before any rounding.

    For ``int8``, `x` is int8 with `scale` [..., M, 1] or [1], the weight encoded, and the result float32, as the
    module's text says.
    """
    with np.errstate(all="ignore"):
        if isinstance(weight, Stored) and scale is not None:
            right = weight.encoding.integers(weight.components).astype(np.float64)  # which holds all these sums
            sums = np.matmul(x.astype(np.float64), right.T if transposed else right).astype(np.float32)
            return np.asarray(sums * weight.components["scale"] * scale)
        right = factor(weight.elements() if isinstance(weight, Stored) else weight, compute)
        return np.asarray(np.matmul(factor(x, compute), np.swapaxes(right, -1, -2) if transposed else right))


def factor(x: np.ndarray, compute: str) -> np.ndarray:
    """Elements as the arithmetic of `compute`, which is not ``int8``, reads them; in float64."""
    return widened(x.astype(dtypes.dtype("bfloat16").numpy) if compute == "bfloat16" else x)


def factor_type(op: str, inputs: Types, attributes: Attributes, scale_at: int) -> TensorType:
    """The type of x [..., K], the input 0, as the product reads it.

    ValueError unless it is a float, or, for ``int8``, bytes with a scale for each row as the input `scale_at`.
    """
    x, scale = present(op, inputs, 0, "x"), optional(inputs, scale_at)
    if attributes["compute"] != "int8":
        if scale is not None:
            raise wrong(op, "no scale without compute='int8'", scale)
        return of_dtype(op, "x", x, FLOATS)
    if x.dtype != "int8" or scale is None or not x.shape:
        raise wrong(op, "int8 with a scale for each row, for compute='int8'", x)
    of_shape(op, "scale", of_same_dtype(op, "scale", scale, "float32"), (*x.shape[:-1], 1))
    return TensorType("float32", x.shape)


def check_product(op: str, inputs: Types, attributes: Attributes, *, transposed: bool) -> None:
    """ValueError if the arithmetic of ``int8`` cannot read the weight of a product, the input 1.

    `inputs` are types with encodings. `transposed`: whether the weight has its summed axis last.
    """
    weight = inputs[1]
    if weight is None or attributes["compute"] != "int8":
        return
    columns = 0 if transposed else 1
    if weight.encoding != INT8_CHANNEL.along(columns):
        raise wrong(op, "a weight stored as bytes with a scale for each column, for compute='int8'", weight)
    summed = weight.shape[1 - columns]
    if sizes.is_fixed(summed) and summed > MOST_SUMMED:
        raise wrong(op, f"at most {MOST_SUMMED} products in a sum of compute='int8'", weight)
