"""Ops that make values from attributes, and the triangles of a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine import dtypes
from engine.ops.check import ANY, cast_array, of_dtype, of_rank, present, result, wrong
from engine.ops.rounding import EXACT
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare
from engine.sizes import MOST, is_fixed

LAST_DIAGONAL = MOST  # no axis is that long: from here on a triangle has every element, or none


def _infer_full(_inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    shape = attributes["shape"]
    if any(size < 0 for size in shape):
        raise wrong("full", "sizes >= 0", list(shape))
    return result("full", attributes["dtype"], shape)


def _full_reference(shape: tuple[int, ...], value: float, dtype: str) -> np.ndarray:
    filled = np.empty(shape, dtypes.dtype(dtype).numpy)
    filled[...] = cast_array(np.asarray(value, np.float64), filled.dtype)
    return filled


declare(
    Op(
        "full",
        "create",
        (),
        _infer_full,
        _full_reference,
        {"shape": Attribute("shape"), "value": Attribute("float"), "dtype": Attribute("dtype")},
        doc="one value everywhere",
    )
)


def _infer_arange(_inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    if attributes["length"] < 0:
        raise wrong("arange", "length >= 0", attributes["length"])
    if attributes["dtype"] == "bool":
        raise wrong("arange", "a float or an integer dtype", "bool")
    return result("arange", attributes["dtype"], (attributes["length"],))


def _arange_reference(start: float, step: float, length: int, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return cast_array(start + np.arange(length, dtype=np.float64) * step, dtypes.dtype(dtype).numpy)


declare(
    Op(
        "arange",
        "create",
        (),
        _infer_arange,
        _arange_reference,
        {
            "start": Attribute("float", 0.0),
            "step": Attribute("float", 1.0),
            "length": Attribute("int"),
            "dtype": Attribute("dtype"),
        },
        doc="start + i * step for i < length, in float64, then in dtype",
    )
)


def clamped_diagonal(diagonal: int) -> int:
    """`diagonal` itself, or the last diagonal on its side of the main one, which cuts the same triangle."""
    if not is_fixed(diagonal) or abs(diagonal) <= LAST_DIAGONAL:
        return diagonal
    return LAST_DIAGONAL if diagonal > 0 else -LAST_DIAGONAL


def _declare_triangle(name: str, function: Callable[..., np.ndarray], doc: str) -> None:
    def infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        x = of_rank(name, "x", of_dtype(name, "x", present(name, inputs, 0, "x"), ANY), 2)
        if clamped_diagonal(diagonal := attributes["diagonal"]) is not diagonal:
            raise wrong(name, f"a diagonal between -{LAST_DIAGONAL} and {LAST_DIAGONAL}", diagonal)
        return result(name, x.dtype, x.shape)

    def reference(x: np.ndarray, diagonal: int) -> np.ndarray:
        kept = function(np.ones(x.shape[-2:], np.bool_), diagonal)
        return np.where(kept, x, np.zeros((), x.dtype))

    attributes = {"diagonal": Attribute("int", 0)}
    declare(Op(name, "create", ("x",), infer, reference, attributes, inplace=(0,), rounding=EXACT, doc=doc))


_declare_triangle("tril", np.tril, "zeros above the diagonal of the last two axes (`diagonal` > 0: further up)")
_declare_triangle("triu", np.triu, "zeros below the diagonal of the last two axes (`diagonal` > 0: further up)")
