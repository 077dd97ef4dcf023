"""Softmax and its logarithm along one axis.

A program holds whole rows (`rows`), several if they are narrow, and reads and writes each element once. Rows that fit
no block are read twice: a maximum and a sum are kept up to date over blocks, then the result is written (`loop`). If
there are fewer such rows than multiprocessors, each row is split (`split`): one launch finds maximum and sum of each
part, another combines them and writes. docs/gpu-results.md says what was measured.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from engine.targets.triton.kernel_table import Answer, Request, kernel
from engine.targets.triton.kernels._functions import divide, widen
from engine.targets.triton.kernels._rows import (
    MOST,
    AxisGroup,
    Block,
    choose_block,
    choose_loop,
    choose_whole_rows,
    count_parts,
    count_programs,
    describe_rows,
    largest,
    spread,
    walk_rows,
)
from engine.targets.triton.launch import Launch, Launches, Scratch, next_power_of_two

SPLIT_ELEMENTS = 1024
"""Elements of a block of a split row."""


@triton.jit
def _finish(x, top, total, LOGARITHM: tl.constexpr):
    """The result for x, of the largest element of its row and the sum of exp(x - top)."""
    return x - top - tl.log(total) if LOGARITHM else tl.exp(x - top) * divide(1.0, total)


@triton.jit
def _softmax_rows(
    x,
    out,
    rows,
    columns,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    LOGARITHM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program takes ROWS rows of at most COLUMNS columns. Steps are those of x and out."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    x += spread(row, row_sizes, row_steps[0], True)
    out += spread(row, row_sizes, row_steps[1], True)
    v = widen(tl.load(x + spread(column, column_sizes, column_steps[0], WIDE), mask=inside, other=float("-inf")))
    top = largest(v)
    # -inf and +inf in place of the largest element give NaN, as they should.
    total = tl.sum(tl.exp(v - top), 1, keep_dims=True)
    made = _finish(v, top, total, LOGARITHM)
    tl.store(out + spread(column, column_sizes, column_steps[1], WIDE), made.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _measure(
    x, row, rows, start, end, column_sizes, x_columns, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Largest element of columns `start` to `end` of the rows at `x`, and sum of exp(x - largest): two of [rows, 1]."""
    KIND: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    top = tl.full([ROWS, 1], float("-inf"), KIND)
    sums = tl.zeros([ROWS, COLUMNS], KIND)
    for first in range(start, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows) & (column < end)
        v = widen(tl.load(x + spread(column, column_sizes, x_columns, WIDE), mask=inside, other=float("-inf")))
        higher = tl.maximum(top, largest(v))
        # After nothing but -inf the sum is still 0, and finite elements may follow.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        sums = sums * tl.exp(top - base) + tl.exp(v - base)
        top = higher
    return top, tl.sum(sums, 1, keep_dims=True)


@triton.jit
def _write(
    x,
    out,
    row,
    rows,
    start,
    end,
    column_sizes,
    column_steps,
    top,
    total,
    LOGARITHM: tl.constexpr,
    WIDE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write columns `start` to `end` of the result; `x` and `out` point to the rows."""
    for first in range(start, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows) & (column < end)
        v = widen(tl.load(x + spread(column, column_sizes, column_steps[0], WIDE), mask=inside, other=0))
        made = _finish(v, top, total, LOGARITHM)
        tl.store(out + spread(column, column_sizes, column_steps[1], WIDE), made.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _softmax_loop(
    x,
    out,
    rows,
    columns,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    LOGARITHM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program takes ROWS rows of any width. Steps are those of x and out."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    x += spread(row, row_sizes, row_steps[0], True)
    out += spread(row, row_sizes, row_steps[1], True)
    top, total = _measure(x, row, rows, 0, columns, column_sizes, column_steps[0], WIDE, ROWS, COLUMNS)
    _write(x, out, row, rows, 0, columns, column_sizes, column_steps, top, total, LOGARITHM, WIDE, COLUMNS)


@triton.jit
def _measure_parts(
    x,
    tops,
    totals,
    rows,
    columns,
    part,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program (r, p) measures part p of `part` columns of ROWS rows: `tops` and `totals` are [rows, parts]."""
    number = tl.program_id(1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    x += spread(row, row_sizes, row_steps[0], True)
    end = tl.minimum((number + 1) * part, columns)
    top, total = _measure(x, row, rows, number * part, end, column_sizes, column_steps[0], WIDE, ROWS, COLUMNS)
    place = row * tl.num_programs(1) + number
    tl.store(tops + place, top, mask=row < rows)
    tl.store(totals + place, total, mask=row < rows)


@triton.jit
def _softmax_parts(
    x,
    out,
    tops,
    totals,
    rows,
    columns,
    part,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    LOGARITHM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Program (r, p) writes part p of ROWS rows, of the measures of all their parts. PARTS: at least their number."""
    number = tl.program_id(1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    each = tl.arange(0, PARTS)[None, :]
    known = (row < rows) & (each < tl.num_programs(1))
    place = row * tl.num_programs(1) + each
    own = tl.load(tops + place, mask=known, other=float("-inf"))
    top = largest(own)
    total = tl.sum(tl.load(totals + place, mask=known, other=0) * tl.exp(own - top), 1, keep_dims=True)
    x += spread(row, row_sizes, row_steps[0], True)
    out += spread(row, row_sizes, row_steps[1], True)
    end = tl.minimum((number + 1) * part, columns)
    _write(x, out, row, rows, number * part, end, column_sizes, column_steps, top, total, LOGARITHM, WIDE, COLUMNS)


# --- plans -----------------------------------------------------------------------------------------------------------


def _walk(request: Request) -> tuple[AxisGroup, AxisGroup]:
    shape, strides = request.output.shape, [request.need(0).strides, request.output.strides]
    return walk_rows(shape, strides, [request.attributes["axis"] % len(shape)])


def _launch(request: Request, function: Any, rows: AxisGroup, columns: AxisGroup, block: Block | None) -> Answer:
    if block is None:
        return None
    arguments = {"x": request.need(0).pointer(), "out": request.output.pointer()}
    arguments |= describe_rows(rows, columns, block) | {"LOGARITHM": request.op == "log_softmax"}
    return Launches((Launch(function, (count_programs(rows, block),), arguments, block.options),))


@kernel("softmax", "log_softmax", variant="rows")
def plan_rows(request: Request) -> Answer:
    """Whole rows in a block."""
    rows, columns = _walk(request)
    block = choose_whole_rows(rows, columns, request.device.multiprocessors, request.output.dtype)
    return _launch(request, _softmax_rows, rows, columns, block)


@kernel("softmax", "log_softmax", variant="split")
def plan_split(request: Request) -> Answer:
    """Parts of few wide rows."""
    rows, columns = _walk(request)
    if max(rows.total, columns.total) > MOST:
        return None
    block = choose_block(rows, columns, request.device.multiprocessors, SPLIT_ELEMENTS)
    programs = count_programs(rows, block)
    parts, part = count_parts(programs, columns.total, block.columns, request.device.multiprocessors)
    if parts == 1:
        return None
    kind = "float64" if request.output.dtype == "float64" else "float32"
    nbytes = rows.total * parts * (8 if kind == "float64" else 4)
    arguments = {"x": request.need(0).pointer()} | describe_rows(rows, columns, block)
    arguments |= {"tops": Scratch(0, kind), "totals": Scratch(nbytes, kind), "part": part}
    own = {"out": request.output.pointer(), "LOGARITHM": request.op == "log_softmax", "PARTS": next_power_of_two(parts)}
    grid = (programs, parts)
    first = Launch(_measure_parts, grid, arguments, block.options)
    return Launches((first, Launch(_softmax_parts, grid, arguments | own, block.options)), 2 * nbytes)


@kernel("softmax", "log_softmax", variant="loop")
def plan_loop(request: Request) -> Answer:
    """Rows of any width, block by block."""
    rows, columns = _walk(request)
    block = choose_loop(rows, columns, request.device.multiprocessors, request.output.dtype)
    return _launch(request, _softmax_loop, rows, columns, block)
