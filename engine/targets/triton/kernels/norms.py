"""Layer norm, RMS norm and group norm, with the sum that is fused into them.

A program holds whole rows (`rows`), several if they are narrow, and reads and writes each element once. Rows that fit
no block are read twice (`loop`): the statistics of blocks are merged, then the result is written. Neither computes
E[x^2] - E[x]^2. docs/gpu-results.md says what was measured.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from engine.targets.triton.kernel_table import Answer, Request, Tensor, kernel
from engine.targets.triton.kernels._functions import divide, sqrt, widen
from engine.targets.triton.kernels._layouts import broadcast_strides
from engine.targets.triton.kernels._rows import (
    AxisGroup,
    Block,
    choose_loop,
    choose_whole_rows,
    count_programs,
    describe_rows,
    load_sum,
    merge_block,
    spread,
    walk_axes,
)
from engine.targets.triton.launch import Launch, Launches


@triton.jit
def _scale_columns(v, weight, bias, inside):
    """V * weight + bias; `weight` and `bias` are pointers for each column, or None."""
    if weight is not None:
        v = v * widen(tl.load(weight, mask=inside, other=0))
    if bias is not None:
        v = v + widen(tl.load(bias, mask=inside, other=0))
    return v


@triton.jit
def _advance(pointer, i, sizes, steps, WIDE: tl.constexpr):
    """Pointers to elements `i` of a group of axes, of an operand that is there: triton 3.6 cannot return None."""
    return pointer + spread(i, sizes, steps, WIDE)


@triton.jit
def _norm_rows(
    x,
    addend,
    weight,
    bias,
    out,
    rows,
    columns,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    EPSILON: tl.constexpr,
    CENTRED: tl.constexpr,
    APART: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program normalises ROWS rows of at most COLUMNS columns. Steps are those of x, addend, weight, bias, out.

    APART: rows have weights of their own.
    """
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < columns
    inside = (row < rows) & known
    x = _advance(_advance(x, row, row_sizes, row_steps[0], True), column, column_sizes, column_steps[0], WIDE)
    if addend is not None:
        addend = _advance(addend, row, row_sizes, row_steps[1], True)
        addend = _advance(addend, column, column_sizes, column_steps[1], WIDE)
    out = _advance(_advance(out, row, row_sizes, row_steps[4], True), column, column_sizes, column_steps[4], WIDE)
    v = load_sum(x, addend, inside)
    total = tl.sum(v, 1, keep_dims=True)
    count = tl.zeros_like(total) + columns
    if CENTRED:
        v = tl.where(inside, v - divide(total, count), 0.0)
    variance = divide(tl.sum(v * v, 1, keep_dims=True), count)
    v = v * divide(1.0, sqrt(variance + EPSILON))
    if weight is not None:
        if APART:
            weight = _advance(weight, row, row_sizes, row_steps[2], True)
        weight = _advance(weight, column, column_sizes, column_steps[2], WIDE)
    if bias is not None:
        if APART:
            bias = _advance(bias, row, row_sizes, row_steps[3], True)
        bias = _advance(bias, column, column_sizes, column_steps[3], WIDE)
    v = _scale_columns(v, weight, bias, inside if APART else known)
    tl.store(out, v.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _norm_loop(
    x,
    addend,
    weight,
    bias,
    out,
    rows,
    columns,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    EPSILON: tl.constexpr,
    CENTRED: tl.constexpr,
    APART: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program normalises ROWS rows of any width. Arguments as of `_norm_rows`."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    x = _advance(x, row, row_sizes, row_steps[0], True)
    if addend is not None:
        addend = _advance(addend, row, row_sizes, row_steps[1], True)
    if APART and weight is not None:
        weight = _advance(weight, row, row_sizes, row_steps[2], True)
    if APART and bias is not None:
        bias = _advance(bias, row, row_sizes, row_steps[3], True)
    out = _advance(out, row, row_sizes, row_steps[4], True)
    KIND: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    mean = tl.zeros([ROWS, 1], KIND)
    squares = tl.zeros([ROWS, 1], KIND)
    sums = tl.zeros([ROWS, COLUMNS], KIND)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows) & (column < columns)
        there = None if addend is None else _advance(addend, column, column_sizes, column_steps[1], WIDE)
        v = load_sum(_advance(x, column, column_sizes, column_steps[0], WIDE), there, inside)
        if CENTRED:
            mean, squares = merge_block(mean, squares, start, v, inside, tl.minimum(columns - start, COLUMNS))
        else:
            sums += v * v
    if not CENTRED:
        squares = tl.sum(sums, 1, keep_dims=True)
    scale = divide(1.0, sqrt(divide(squares, tl.zeros_like(squares) + columns) + EPSILON))
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        known = column < columns
        inside = (row < rows) & known
        there = None if addend is None else _advance(addend, column, column_sizes, column_steps[1], WIDE)
        v = load_sum(_advance(x, column, column_sizes, column_steps[0], WIDE), there, inside)
        factor = None if weight is None else _advance(weight, column, column_sizes, column_steps[2], WIDE)
        term = None if bias is None else _advance(bias, column, column_sizes, column_steps[3], WIDE)
        v = _scale_columns((v - mean) * scale, factor, term, inside if APART else known)
        place = _advance(out, column, column_sizes, column_steps[4], WIDE)
        tl.store(place, v.to(out.dtype.element_ty), mask=inside)


# --- plans -----------------------------------------------------------------------------------------------------------


def _walk_groups(request: Request) -> tuple[AxisGroup, AxisGroup]:
    """As `_walk`: a row is a group of an image, its columns are the channels of the group and the places."""
    x, output, groups = request.need(0), request.output, request.attributes["groups"]
    order = list(range(len(x.shape)))
    if request.attributes["channels_last"]:
        order.insert(1, order.pop())
    images, channels, *places = (x.shape[axis] for axis in order)
    width = channels // groups

    def split(image: int, channel: int, *others: int) -> tuple[int, ...]:
        return (image, channel * width, channel, *others)

    own, made = (split(*(one.strides[axis] for axis in order)) for one in (x, output))
    affine = [own if one is None else split(0, one.strides[0], *[0] * len(places)) for one in _affine(request)]
    shape, strides = (images, groups, width, *places), [own, own, *affine, made]
    return walk_axes(shape, strides, range(2)), walk_axes(shape, strides, range(2, len(shape)))


def _affine(request: Request) -> tuple[Tensor | None, Tensor | None]:
    return request.find(1), None if request.op == "rms_norm" else request.find(2)


def _walk(request: Request) -> tuple[AxisGroup, AxisGroup]:
    """The rows and the columns of x, addend, weight, bias and the result; absent operands as x."""
    if request.op == "group_norm":
        return _walk_groups(request)
    x, output, shape = request.need(0), request.output, request.output.shape
    operands = (x, request.find(_addend_of(request)), *_affine(request), output)
    strides = [broadcast_strides(x if one is None else one, shape) for one in operands]
    first = len(shape) - request.attributes["axes"]
    rows = walk_axes(shape, [strides[0], strides[1], strides[4]], range(first))
    x_rows, a_rows, o_rows = rows.steps
    none = (0,) * len(rows.sizes)
    return rows._replace(steps=(x_rows, a_rows, none, none, o_rows)), walk_axes(
        shape, strides, range(first, len(shape))
    )


def _addend_of(request: Request) -> int:
    return 2 if request.op == "rms_norm" else 3  # group_norm has none


def _launch(request: Request, function: Any, rows: AxisGroup, columns: AxisGroup, block: Block | None) -> Answer:
    if block is None:
        return None
    x, (weight, bias) = request.need(0), _affine(request)
    optional = {"addend": request.find(_addend_of(request)), "weight": weight, "bias": bias}
    arguments: dict[str, Any] = {"x": x.pointer(), "out": request.output.pointer()}
    arguments |= {name: None if one is None else one.pointer() for name, one in optional.items()}
    arguments |= {"EPSILON": request.attributes["epsilon"], "CENTRED": request.op != "rms_norm"}
    arguments["APART"] = request.op == "group_norm"
    arguments |= describe_rows(rows, columns, block)
    return Launches((Launch(function, (count_programs(rows, block),), arguments, block.options),))


@kernel("layer_norm", "rms_norm", "group_norm", variant="rows")
def plan_rows(request: Request) -> Answer:
    """Whole rows in a block."""
    rows, columns = _walk(request)
    block = choose_whole_rows(rows, columns, request.device.multiprocessors, request.output.dtype)
    return _launch(request, _norm_rows, rows, columns, block)


@kernel("layer_norm", "rms_norm", "group_norm", variant="loop")
def plan_loop(request: Request) -> Answer:
    """Rows of any width, block by block."""
    rows, columns = _walk(request)
    block = choose_loop(rows, columns, request.device.multiprocessors, request.output.dtype)
    return _launch(request, _norm_loop, rows, columns, block)
