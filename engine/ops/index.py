"""Ops that read at positions given by integers. A position outside of its range is an error (IndexError here).

Bytes count the rows that are read, one an index, not the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ops.check import (
    ANY,
    INDICES,
    axis_of,
    in_range,
    indexed_shape,
    of_dtype,
    of_rank,
    present,
    result,
    wrong,
)
from engine.ops.rounding import EXACT
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare


def _rows_read(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """The indices, and each element of the result once read and once written."""
    return sum(t.nbytes for t in inputs[1:] if t is not None) + 2 * outputs[0].nbytes


def _infer_embedding(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    table = of_rank(
        "embedding", "table", of_dtype("embedding", "table", present("embedding", inputs, 0, "table"), ANY), 1
    )
    ids = of_dtype("embedding", "ids", present("embedding", inputs, 1, "ids"), INDICES)
    return result("embedding", table.dtype, (*ids.shape, *table.shape[1:]))


def _embedding_reference(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    in_range("embedding", ids, 0, table.shape[0])
    return np.array(table[ids])


declare(
    Op(
        "embedding",
        "index",
        ("table", "ids"),
        _infer_embedding,
        _embedding_reference,
        nbytes=_rows_read,
        encoded={"table": ""},
        rounding=EXACT,
        doc="rows of table [V, ...] at ids; ids outside of [0, V) are an error",
    )
)


def _infer_gather(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("gather", "x", present("gather", inputs, 0, "x"), ANY)
    rank, axis = len(x.shape), axis_of("gather", attributes["axis"], x)
    index = of_dtype("gather", "index", present("gather", inputs, 1, "index"), INDICES)
    of_rank("gather", "index", index, rank, rank)
    if any(i > n for a, (i, n) in enumerate(zip(index.shape, x.shape, strict=True)) if a != axis):
        raise wrong("gather", f"'index' no larger than {x} on every axis but {axis}", index)
    return result("gather", x.dtype, index.shape)


def _gather_reference(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    in_range("gather", index, 0, x.shape[axis])
    kept = tuple(slice(None) if a == axis else slice(size) for a, size in enumerate(index.shape))
    return np.take_along_axis(x[kept], index, axis)


declare(
    Op(
        "gather",
        "index",
        ("x", "index"),
        _infer_gather,
        _gather_reference,
        {"axis": Attribute("axis")},
        nbytes=_rows_read,
        rounding=EXACT,
        doc="result[.., i, ..] = x[.., index[.., i, ..], ..] along an axis; negative indices are an error",
    )
)


def _infer_index_select(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("index_select", "x", present("index_select", inputs, 0, "x"), ANY)
    axis = axis_of("index_select", attributes["axis"], x)
    index = of_dtype("index_select", "index", present("index_select", inputs, 1, "index"), INDICES)
    of_rank("index_select", "index", index, 1, 1)
    return result("index_select", x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


def _index_select_reference(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    in_range("index_select", index, 0, x.shape[axis])
    return np.take(x, index, axis=axis)


declare(
    Op(
        "index_select",
        "index",
        ("x", "index"),
        _infer_index_select,
        _index_select_reference,
        {"axis": Attribute("axis")},
        nbytes=_rows_read,
        rounding=EXACT,
        doc="slices of x along an axis at the positions of a vector; negative positions are an error",
    )
)


def _infer_index(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("index", "x", present("index", inputs, 0, "x"), ANY)
    return result("index", x.dtype, indexed_shape("index", x, inputs[1:], attributes["axes"]))


def _index_reference(x: np.ndarray, *indices: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    where: list[slice | np.ndarray] = [slice(None)] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        in_range("index", index, -x.shape[axis], x.shape[axis])
        where[axis] = index
    return np.array(x[tuple(where)], order="C")


declare(
    Op(
        "index",
        "index",
        ("x", "indices*"),
        _infer_index,
        _index_reference,
        {"axes": Attribute("axes")},
        nbytes=_rows_read,
        rounding=EXACT,
        doc="x[..., i, j, ...]: the indices broadcast together and replace `axes`, at the first of them if they are "
        "adjacent, else in front; negative indices count from the end",
    )
)
