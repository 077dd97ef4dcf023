"""In which numbers products are computed and summed: the attribute `compute` of `linear` and its relatives.

``element``   the elements as they are, in float64. A kernel sums in float32 or wider.
``bfloat16``  both factors rounded to bfloat16, half to even, then as ``element``; products are exact in float32.
``int8``      both factors as integers with scales, and integers are summed exactly.

For ``int8`` each row of the first factor (all elements that are summed with one scale) is quantised when the op runs:

    scale = max(|row|) / 127 in float32, 1 if that is 0         q = row / scale in float32, rounded half to even

The second factor is an integer encoding of a constant, or quantised in the same way, column by column. The product of a
row and a column is then, over their blocks g (one, unless the encoding has groups along the summed axis),

    scale(row) * sum over g of (scale(g, column) * sum over k in g of q(row, k) * w(k, column)
                                + minimum(g, column) * sum over k in g of q(row, k))

with a minimum only if the encoding has one. A row of a convolution is a whole image, all channels of it. The inner sums
are exact in int32. The outer sum is computed in float64. A row with an infinity or a NaN gives NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine import dtypes, sizes
from engine.encodings import Stored
from engine.ops.check import widened, wrong
from engine.ops.table import Attribute, Attributes, Types

COMPUTE = Attribute("choice", "element", ("element", "bfloat16", "int8"))
MOST_SUMMED = (2**31 - 1) // (127 * 128)
"""Products of two 8-bit integers whose sum always fits int32."""


class Rows(NamedTuple):
    """Rows of integers with a scale each: `data` int32 [..., K], `scale` float32 [..., 1]."""

    data: np.ndarray
    scale: np.ndarray


class Columns(NamedTuple):
    """Columns of integers: `data` int32 [..., K, N]; `scale` and `least` float64 [..., G, N], blocks of equal size.

    `least` is added to each element of a block after it is multiplied by the scale; None: nothing is.
    """

    data: np.ndarray
    scale: np.ndarray
    least: np.ndarray | None


def quantised_rows(x: np.ndarray) -> Rows:
    """`x` [..., K] quantised along its last axis, as the module's text says."""
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        most = np.abs(x).max(-1, keepdims=True, initial=0)
        usable = np.isfinite(most)
        scale = most / np.float32(127)
        scale = np.where(scale == 0, np.float32(1), scale)
        quotient = np.where(usable, np.rint(x / scale), 0)
    return Rows(np.clip(quotient, -127, 127).astype(np.int32), np.where(usable, scale, np.float32(np.nan)))


def columns_of(weight: np.ndarray | Stored, *, transposed: bool) -> Columns:
    """The second factor of a product. `weight` is [..., K, N], or [..., N, K] if `transposed`."""
    if not isinstance(weight, Stored):
        rows = quantised_rows(weight if transposed else np.swapaxes(weight, -1, -2))
        return Columns(np.swapaxes(rows.data, -1, -2), np.swapaxes(rows.scale, -1, -2).astype(np.float64), None)
    encoding, components = weight.encoding, weight.components
    data = encoding.integers(components)
    blocks = {name: components[name].astype(np.float64) for name in ("scale", "zero") if name in components}
    if encoding.per == "channel":
        blocks = {name: one.reshape(1, -1) for name, one in blocks.items()}
    elif encoding.per == "tensor":
        blocks = {name: np.full((1, data.shape[0 if transposed else 1]), one) for name, one in blocks.items()}
    elif transposed:
        blocks = {name: one.T for name, one in blocks.items()}
    return Columns(
        data.T if transposed else data, blocks["scale"], blocks["zero"] if encoding.zero == "minimum" else None
    )


def product_int8(rows: Rows, columns: Columns) -> np.ndarray:
    """[..., M, N] in float64, of rows [..., M, K]."""
    groups = columns.scale.shape[-2]
    size = columns.data.shape[-2] // groups
    total = np.zeros(())
    for g in range(groups):
        at = slice(g * size, (g + 1) * size)
        data = rows.data[..., at].astype(np.int64)
        part = np.matmul(data, columns.data[..., at, :].astype(np.int64)) * columns.scale[..., g : g + 1, :]
        if columns.least is not None:
            part = part + data.sum(-1, keepdims=True) * columns.least[..., g : g + 1, :]
        total = total + part
    return np.asarray(rows.scale.astype(np.float64) * total)


def product(x: np.ndarray, weight: np.ndarray | Stored, compute: str, *, transposed: bool) -> np.ndarray:
    """X [..., M, K] or [K] times weight [..., K, N] ([..., N, K] if `transposed`), in float64 before any rounding.

    For ``int8`` the weight may also be an encoded constant. `compute` is as the module's text says.
    """
    with np.errstate(all="ignore"):
        if compute == "int8":
            return product_int8(quantised_rows(x), columns_of(weight, transposed=transposed))
        elements = weight.elements() if isinstance(weight, Stored) else weight
        right = factor(elements, compute)
        return np.asarray(np.matmul(factor(x, compute), np.swapaxes(right, -1, -2) if transposed else right))


def factor(x: np.ndarray, compute: str) -> np.ndarray:
    """Elements as the arithmetic of `compute`, which is not ``int8``, reads them; in float64."""
    return widened(x.astype(dtypes.dtype("bfloat16").numpy) if compute == "bfloat16" else x)


def check_product(op: str, inputs: Types, attributes: Attributes, *, transposed: bool, constant: bool) -> None:
    """ValueError if the arithmetic of `compute` cannot read the second input of a product of matrices.

    `inputs` are types with encodings. `transposed`: whether the second input has its summed axis last. `constant`:
    whether ``int8`` needs that input to be encoded as integers.
    """
    weight = inputs[1]
    if weight is None or attributes["compute"] != "int8":
        return
    summed = len(weight.shape) - (1 if transposed else 2)
    if sizes.is_fixed(weight.shape[summed]) and weight.shape[summed] > MOST_SUMMED:
        raise wrong(op, f"at most {MOST_SUMMED} products in a sum of compute='int8'", weight)
    encoding = weight.encoding
    if encoding is not None and len(weight.shape) != 2:
        raise wrong(op, "an encoded matrix for compute='int8'", weight)
    if encoding is None:
        if constant:
            raise wrong(op, "a weight that is encoded as integers, for compute='int8'", weight)
        return
    axes = {"channel": 2 * len(weight.shape) - 3 - summed, "group": summed}
    if not encoding.is_integer or axes.get(encoding.per, encoding.axis) != encoding.axis:
        raise wrong(
            op, "integers with scales for columns, or for groups of summed elements, for compute='int8'", weight
        )


def check_conv(op: str, inputs: Types, attributes: Attributes) -> None:
    """ValueError if the arithmetic of `compute` cannot read the weight [O, C / groups, *K] of a convolution."""
    weight = inputs[1]
    if weight is None or attributes["compute"] != "int8":
        return
    encoding = weight.encoding
    usable = encoding is not None and (encoding.per == "tensor" or (encoding.per, encoding.axis) == ("channel", 0))
    if encoding is None or not usable or encoding.zero == "minimum":
        raise wrong(op, "a weight encoded as integers with scales for output channels, for compute='int8'", weight)
    if math.prod(weight.shape[1:]) > MOST_SUMMED:  # of a constant, so all sizes are known
        raise wrong(op, f"at most {MOST_SUMMED} products in a sum of compute='int8'", weight)


def conv_factors(x: np.ndarray, weight: np.ndarray | Stored, compute: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both factors of a convolution of x [N, C, *S] in float64, and what multiplies sums [N, O]: 1, or scales."""
    if compute != "int8" or not isinstance(weight, Stored):
        elements = weight.elements() if isinstance(weight, Stored) else weight
        return factor(x, compute), factor(elements, compute), np.ones((1, 1))
    rows = quantised_rows(x.reshape(x.shape[0], -1))
    scales = weight.components["scale"].astype(np.float64).reshape(1, -1)
    data = rows.data.reshape(x.shape).astype(np.float64)
    return data, weight.encoding.integers(weight.components).astype(np.float64), rows.scale * scales
