"""Ops that rearrange elements. Where strides permit, the result is a view: another layout of the same buffer.

A view rule answers in elements from the start of the buffer and never looks at data. Bytes are those of a copy; a
node that stays a view moves none, which only the bound plan knows. Of an encoded constant reshape, permute and slice
make elements, which are not encoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.ops.check import ANY, axis_of, of_dtype, of_rank, of_same_dtype, present, result, wrong
from engine.ops.rounding import EXACT
from engine.ops.table import Attribute, Attributes, Layout, Op, TensorType, Types, cached, declare
from engine.sizes import same


def _x(name: str, inputs: Types) -> TensorType:
    return of_dtype(name, "x", present(name, inputs, 0, "x"), ANY)


def _copy_of_result(_inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """Only what is kept is read, and it is written once."""
    return 2 * outputs[0].nbytes


# --- reshape ----------------------------------------------------------------------------------------------------


def _infer_reshape(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, shape = _x("reshape", inputs), attributes["shape"]
    if any(size < 0 for size in shape) or math.prod(shape) != x.size:
        raise wrong("reshape", f"a shape of {x.size} elements for {x}", list(shape))
    return result("reshape", x.dtype, shape)


def _view_reshape(layout: Layout, _attributes: Attributes, shape: tuple[int, ...]) -> Layout | None:
    strides = _reshaped(layout.shape, layout.strides, shape)
    return None if strides is None else Layout(shape, strides, layout.offset)


@cached
def _reshaped(
    old_shape: tuple[int, ...], old_strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a reshaped view, or None. NumPy's rule: old and new axes fall into runs of equal element count; a run
    of old axes must be walkable in one stride for the new ones to divide it.
    """
    if math.prod(shape) == 0:
        return Layout.dense(shape).strides
    old = [(size, stride) for size, stride in zip(old_shape, old_strides, strict=True) if size != 1]
    strides = [0] * len(shape)
    axis = 0  # next of the new axes
    first = 0  # next of the old axes
    while first < len(old):
        last = first + 1
        run, end = old[first][0], axis
        made = 1
        while end < len(shape) and made != run:
            made *= shape[end]
            end += 1
            while made > run and last < len(old):
                run *= old[last][0]
                last += 1
        if any(old[i][1] != old[i + 1][0] * old[i + 1][1] for i in range(first, last - 1)):
            return None
        step = old[last - 1][1]
        for i in range(end - 1, axis - 1, -1):
            strides[i] = step
            step *= shape[i]
        axis, first = end, last
    for i in range(axis, len(shape)):  # what is left has size 1: any stride will do
        strides[i] = 1
    return tuple(strides)


declare(
    Op(
        "reshape",
        "shape",
        ("x",),
        _infer_reshape,
        lambda x, shape: np.array(np.reshape(x, shape)),
        {"shape": Attribute("shape")},
        view=_view_reshape,
        encoded={"x": None},
        rounding=EXACT,
        doc="the same elements in row-major order under another shape, every size of it given",
    )
)


# --- permute ----------------------------------------------------------------------------------------------------


def _infer_permute(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, order = _x("permute", inputs), attributes["axes_order"]
    if sorted(order) != list(range(len(x.shape))):
        raise wrong("permute", f"every axis of {x} once", list(order))
    return result("permute", x.dtype, [x.shape[axis] for axis in order])


def _view_permute(layout: Layout, attributes: Attributes, shape: tuple[int, ...]) -> Layout:
    return Layout(shape, tuple(layout.strides[axis] for axis in attributes["axes_order"]), layout.offset)


declare(
    Op(
        "permute",
        "shape",
        ("x",),
        _infer_permute,
        lambda x, axes_order: np.array(np.transpose(x, axes_order), order="C"),
        {"axes_order": Attribute("shape")},
        view=_view_permute,
        encoded={"x": None},
        rounding=EXACT,
        doc="axis i of the result is axis axes_order[i] of x",
    )
)


# --- expand -----------------------------------------------------------------------------------------------------


def _fits(size: int, requested: int) -> bool:
    """Whether an axis of `size` broadcasts to `requested`; what holds for every call is asked first."""
    return same(size, requested) or same(size, 1) or size in (requested, 1)


def _infer_expand(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, shape = _x("expand", inputs), attributes["shape"]
    kept = shape[len(shape) - len(x.shape) :] if len(shape) >= len(x.shape) else None
    if kept is None or any(s < 0 for s in shape) or not all(map(_fits, x.shape, kept)):
        raise wrong("expand", f"a shape that {x} broadcasts to", list(shape))
    return result("expand", x.dtype, shape)


def _view_expand(layout: Layout, _attributes: Attributes, shape: tuple[int, ...]) -> Layout:
    added = len(shape) - len(layout.shape)
    strides = [
        stride if size == requested else 0
        for size, stride, requested in zip(layout.shape, layout.strides, shape[added:], strict=True)
    ]
    return Layout(shape, (*[0] * added, *strides), layout.offset)


declare(
    Op(
        "expand",
        "shape",
        ("x",),
        _infer_expand,
        lambda x, shape: np.array(np.broadcast_to(x, shape), order="C"),
        {"shape": Attribute("shape")},
        view=_view_expand,
        rounding=EXACT,
        doc="axes of size 1 repeated, and axes added in front",
    )
)


# --- slice ------------------------------------------------------------------------------------------------------


def _infer_slice(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, axis = _x("slice", inputs), attributes["axis"]
    size = x.shape[axis_of("slice", axis, x)]
    start, stop, step = attributes["start"], attributes["stop"], attributes["step"]
    if not (0 <= start <= stop <= size and step >= 1):
        raise wrong("slice", f"0 <= start <= stop <= {size} and step >= 1 on axis {axis}", (start, stop, step))
    return result("slice", x.dtype, (*x.shape[:axis], -(-(stop - start) // step), *x.shape[axis + 1 :]))


def _view_slice(layout: Layout, attributes: Attributes, shape: tuple[int, ...]) -> Layout:
    axis, stride = attributes["axis"], layout.strides[attributes["axis"]]
    # One element has no next one: a large step must not make a stride that no integer of C holds.
    kept = stride * attributes["step"] if shape[axis] > 1 else stride
    strides = (*layout.strides[:axis], kept, *layout.strides[axis + 1 :])
    # Without elements the start may lie behind the buffer's end: stay where the input is.
    skipped = attributes["start"] * stride if math.prod(shape) else 0
    return Layout(shape, strides, layout.offset + skipped)


def _slice_reference(x: np.ndarray, axis: int, start: int, stop: int, step: int) -> np.ndarray:
    return np.array(x[(*[slice(None)] * axis, slice(start, stop, step))], order="C")


declare(
    Op(
        "slice",
        "shape",
        ("x",),
        _infer_slice,
        _slice_reference,
        {
            "axis": Attribute("axis"),
            "start": Attribute("int"),
            "stop": Attribute("int"),
            "step": Attribute("int", 1),
        },
        nbytes=_copy_of_result,
        view=_view_slice,
        encoded={"x": None},
        rounding=EXACT,
        doc="elements start, start + step, ... before stop along an axis; 0 <= start <= stop <= size, step >= 1",
    )
)


# --- flip and windows -------------------------------------------------------------------------------------------


def _infer_flip(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = _x("flip", inputs)
    for axis in attributes["axes"]:
        axis_of("flip", axis, x)
    return result("flip", x.dtype, x.shape)


declare(
    Op(
        "flip",
        "shape",
        ("x",),
        _infer_flip,
        lambda x, axes: np.array(np.flip(x, axes), order="C"),
        {"axes": Attribute("axes")},
        rounding=EXACT,
        doc="x with its elements in the opposite order along the axes",
    )
)


def _infer_windows(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, axis = _x("windows", inputs), attributes["axis"]
    whole, size, step = x.shape[axis_of("windows", axis, x)], attributes["size"], attributes["step"]
    if not (0 <= size <= whole and step >= 1):
        raise wrong("windows", f"0 <= size <= {whole} and step >= 1 on axis {axis}", (size, step))
    return result("windows", x.dtype, (*x.shape[:axis], (whole - size) // step + 1, *x.shape[axis + 1 :], size))


def _view_windows(layout: Layout, attributes: Attributes, shape: tuple[int, ...]) -> Layout:
    axis, stride = attributes["axis"], layout.strides[attributes["axis"]]
    kept = stride * attributes["step"] if shape[axis] > 1 else stride  # as of a slice
    return Layout(shape, (*layout.strides[:axis], kept, *layout.strides[axis + 1 :], stride), layout.offset)


def _windows_reference(x: np.ndarray, axis: int, size: int, step: int) -> np.ndarray:
    places = np.add.outer(np.arange(0, x.shape[axis] - size + 1, step), np.arange(size))
    return np.array(np.moveaxis(np.take(x, places, axis), axis + 1, -1), order="C")


declare(
    Op(
        "windows",
        "shape",
        ("x",),
        _infer_windows,
        _windows_reference,
        {"axis": Attribute("axis"), "size": Attribute("int"), "step": Attribute("int", 1)},
        nbytes=_copy_of_result,
        view=_view_windows,
        rounding=EXACT,
        doc="elements i * step to i * step + size of an axis, for each i that has them all; the last axis is a window",
    )
)


# --- concat and copy --------------------------------------------------------------------------------------------


def _infer_concat(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    first, axis = _x("concat", inputs), attributes["axis"]
    axis_of("concat", axis, first)
    total = 0
    for position in range(len(inputs)):
        name = f"xs[{position}]"
        x = of_same_dtype("concat", name, present("concat", inputs, position, name), first.dtype)
        of_rank("concat", name, x, len(first.shape), len(first.shape))
        if x.shape[:axis] != first.shape[:axis] or x.shape[axis + 1 :] != first.shape[axis + 1 :]:
            raise wrong("concat", f"{name!r} of the sizes of {first} on every axis but {axis}", x)
        total += x.shape[axis]
    return result("concat", first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _concat_reference(*xs: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(xs, axis=axis)


declare(
    Op(
        "concat",
        "shape",
        ("xs*",),
        _infer_concat,
        _concat_reference,
        {"axis": Attribute("axis")},
        rounding=EXACT,
        doc="one or more tensors of one dtype and rank, one behind the other along an axis",
    )
)


def _infer_copy(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    x = _x("copy", inputs)
    return result("copy", x.dtype, x.shape)


def _copy_reference(x: np.ndarray) -> Any:
    return np.array(x, order="C")


declare(
    Op(
        "copy",
        "shape",
        ("x",),
        _infer_copy,
        _copy_reference,
        rounding=EXACT,
        doc="x again, dense, in memory of its own",
    )
)
