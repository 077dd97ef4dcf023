"""Ops that order elements along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.ops.check import ANY, axis_of, of_dtype, present, result, widened, wrong
from engine.ops.rounding import EXACT
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare


def _infer_argsort(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("argsort", "x", present("argsort", inputs, 0, "x"), ANY)
    axis, count = axis_of("argsort", attributes["axis"], x), attributes["count"]
    if count < 0 or count > x.shape[axis]:
        raise wrong("argsort", f"a count of 0 to the size of axis {axis} of {x}", count)
    return result("argsort", "int64", (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _argsort_reference(x: np.ndarray, axis: int, count: int, descending: bool) -> np.ndarray:
    """NumPy sorts NaN behind all numbers. Backwards over the reversed axis, equal elements keep their order."""
    wide = np.moveaxis(widened(x), axis, -1)
    if descending:
        order = wide.shape[-1] - 1 - np.argsort(wide[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    else:
        order = np.argsort(wide, axis=-1, kind="stable")
    return np.array(np.moveaxis(order[..., :count], -1, axis), dtype=np.int64, order="C")


def _argsort_flops(inputs: Types, _outputs: Sequence[TensorType], attributes: Attributes) -> int:
    """Comparisons of a selection of `count` followed by a sort of these: n log2(count)."""
    x = present("argsort", inputs, 0, "x")
    return x.size * math.ceil(math.log2(max(attributes["count"], 2)))


declare(
    Op(
        "argsort",
        "order",
        ("x",),
        _infer_argsort,
        _argsort_reference,
        {"axis": Attribute("axis"), "count": Attribute("int"), "descending": Attribute("bool", False)},
        flops=_argsort_flops,
        rounding=EXACT,
        doc="positions of the first `count` elements along an axis in ascending or descending order; "
        "equal elements in their own order, NaN counts as larger than all numbers",
    )
)
