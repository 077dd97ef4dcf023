"""Ops that replace or reduce into elements at positions given by integers; the rest stays as it is in `x`.

A position outside of its range is an error (IndexError here). Floats accumulate in float64 and are rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ops.check import (
    ANY,
    BOOL,
    INDICES,
    axis_of,
    broadcast_of,
    in_range,
    indexed_shape,
    of_dtype,
    of_rank,
    of_same_dtype,
    present,
    result,
    rounded,
    wrong,
)
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, broadcast, declare

REDUCTIONS: dict[str, np.ufunc | None] = {
    "none": None,
    "sum": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _written(array: np.ndarray, where: tuple[np.ndarray, ...], values: np.ndarray, ufunc: np.ufunc | None) -> None:
    if ufunc is None:
        array[where] = values
    else:
        ufunc.at(array, where, values)


def _reduced(x: np.ndarray, where: tuple[np.ndarray, ...], values: np.ndarray, ufunc: np.ufunc | None) -> np.ndarray:
    def into(wide: np.ndarray, source: np.ndarray) -> np.ndarray:
        wide = np.array(wide)
        _written(wide, where, source, ufunc)
        return wide

    return rounded(into, x, values)


# --- along one axis ---------------------------------------------------------------------------------------------


def _infer_scatter(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("scatter", "x", present("scatter", inputs, 0, "x"), ANY)
    rank, axis = len(x.shape), axis_of("scatter", attributes["axis"], x)
    index = of_dtype("scatter", "index", present("scatter", inputs, 1, "index"), INDICES)
    of_rank("scatter", "index", index, rank, rank)
    source = of_same_dtype("scatter", "source", present("scatter", inputs, 2, "source"), x.dtype)
    of_rank("scatter", "source", source, rank, rank)
    if x.dtype in BOOL and attributes["reduce"] not in ("none", "sum"):
        raise wrong("scatter", f"'x' of a float or an integer for reduce={attributes['reduce']!r}", x)
    if any(i > n for a, (i, n) in enumerate(zip(index.shape, x.shape, strict=True)) if a != axis):
        raise wrong("scatter", f"'index' no larger than {x} on every axis but {axis}", index)
    if any(i > n for i, n in zip(index.shape, source.shape, strict=True)):
        raise wrong("scatter", f"'index' no larger than 'source' {source}", index)
    return result("scatter", x.dtype, x.shape)


def _scatter_reference(x: np.ndarray, index: np.ndarray, source: np.ndarray, axis: int, reduce: str) -> np.ndarray:
    in_range("scatter", index, 0, x.shape[axis])
    where: list[np.ndarray] = list(np.indices(index.shape))
    where[axis] = index
    part = source[tuple(slice(size) for size in index.shape)]
    return _reduced(x, tuple(where), part, REDUCTIONS[reduce])


def _scatter_bytes(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """All of x read and written, the indices, and one element of the source an index."""
    x, index = present("scatter", inputs, 0, "x"), present("scatter", inputs, 1, "index")
    return x.nbytes + outputs[0].nbytes + index.nbytes + TensorType(x.dtype, index.shape).nbytes


def _scatter_flops(inputs: Types, _outputs: Sequence[TensorType], attributes: Attributes) -> int:
    return 0 if attributes["reduce"] == "none" else present("scatter", inputs, 1, "index").size


declare(
    Op(
        "scatter",
        "write",
        ("x", "index", "source"),
        _infer_scatter,
        _scatter_reference,
        {"axis": Attribute("axis"), "reduce": Attribute("choice", "none", tuple(REDUCTIONS))},
        flops=_scatter_flops,
        nbytes=_scatter_bytes,
        inplace=(0,),
        doc="x with source[.., i, ..] put at (or reduced into) [.., index[.., i, ..], ..] along an axis, in the order "
        "of i; negative indices are an error",
    )
)

# --- at any axes ------------------------------------------------------------------------------------------------


def _infer_index_put(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_dtype("index_put", "x", present("index_put", inputs, 0, "x"), ANY)
    values = of_same_dtype("index_put", "values", present("index_put", inputs, 1, "values"), x.dtype)
    block = indexed_shape("index_put", x, inputs[2:], attributes["axes"])
    target = TensorType(x.dtype, block)
    if broadcast_of("index_put", [target, values]) != block:
        raise wrong("index_put", f"'values' that broadcast to {list(block)}", values)
    return result("index_put", x.dtype, x.shape)


def _index_put_reference(
    x: np.ndarray, values: np.ndarray, *indices: np.ndarray, axes: tuple[int, ...], accumulate: bool
) -> np.ndarray:
    for axis, index in zip(axes, indices, strict=True):
        in_range("index_put", index, -x.shape[axis], x.shape[axis])
    places = np.arange(x.size).reshape(x.shape)
    where: list[slice | np.ndarray] = [slice(None)] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        where[axis] = index
    chosen = places[tuple(where)]
    flat = _reduced(x.reshape(-1), (chosen,), np.broadcast_to(values, chosen.shape), np.add if accumulate else None)
    return flat.reshape(x.shape)


def _block_size(inputs: Types, attributes: Attributes) -> int:
    """Elements that are written, those written twice counted twice."""
    x = present("index_put", inputs, 0, "x")
    count = TensorType("bool", broadcast(*(t.shape for t in inputs[2:] if t is not None))).size
    for axis, size in enumerate(x.shape):
        count *= 1 if axis in attributes["axes"] else size
    return count


def _index_put_bytes(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    return outputs[0].nbytes + sum(t.nbytes for t in inputs if t is not None)


def _index_put_flops(inputs: Types, _outputs: Sequence[TensorType], attributes: Attributes) -> int:
    return _block_size(inputs, attributes) if attributes["accumulate"] else 0


declare(
    Op(
        "index_put",
        "write",
        ("x", "values", "indices*"),
        _infer_index_put,
        _index_put_reference,
        {"axes": Attribute("axes"), "accumulate": Attribute("bool", False)},
        flops=_index_put_flops,
        nbytes=_index_put_bytes,
        inplace=(0,),
        doc="x with values, broadcast, put at (or added to) the elements that `index` with the same indices and "
        "`axes` reads, in row-major order; negative indices count from the end",
    )
)
