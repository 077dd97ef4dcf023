"""Reductions over axes, positions of extremes, variances and running sums.

A program goes over all columns of a block of rows and keeps a partial result in each lane (`loop`). Long rows that
leave multiprocessors idle are split (`split`): one launch makes partial results in working memory, another reduces
those. A position keeps the first of equals, because each lane sees its columns in order. docs/gpu-results.md says
what was measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from engine.targets.triton.kernel_table import Answer, Request, kernel
from engine.targets.triton.kernels._functions import divide
from engine.targets.triton.kernels._rows import (
    MOST,
    AxisGroup,
    Block,
    choose_block,
    count_parts,
    count_programs,
    describe_rows,
    merge_block,
    spread,
    walk_rows,
)
from engine.targets.triton.launch import Launch, Launches, Scratch, count_blocks, next_power_of_two

ELEMENTS = 2048
"""Elements that a program holds at a time; half as many if it splits a row."""
_LAST: tl.constexpr = tl.constexpr((1 << 31) - 1)  # a position after every other


# --- folds: sum, mean, prod, amax, amin, any, all ---------------------------------------------------------------------


@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def _fold_lanes(x, NAME: tl.constexpr):
    """Fold along the last axis. [rows, columns] -> [rows]."""
    if NAME == "sum":
        made = tl.sum(x, 1)
    elif NAME == "prod":
        made = tl.reduce(x, 1, _multiply)
    elif NAME == "amax":
        made = tl.max(x, 1)
    else:
        made = tl.min(x, 1)
    return made


@triton.jit
def _fold(
    x,
    out,
    rows,
    columns,
    part,
    count,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    NAME: tl.constexpr,
    START: tl.constexpr,
    KIND: tl.constexpr,
    IS_TEST: tl.constexpr,
    IS_MEAN: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program (r, p) folds part p of `part` columns of ROWS rows, in KIND; `out` is [parts, rows].

    NAME is sum, prod, amax or amin, and START its result for nothing. IS_TEST: elements are 1 if they are not 0.
    IS_MEAN: the result is divided by `count`.
    """
    number = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x += spread(row, row_sizes, row_steps, True)[:, None]
    end = tl.minimum((number + 1) * part, columns)
    made = tl.full([ROWS, COLUMNS], START, KIND)
    for first in range(number * part, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows)[:, None] & (column < end)
        v = tl.load(x + spread(column, column_sizes, column_steps, WIDE), mask=inside, other=0).to(KIND)
        if IS_TEST:
            v = (v != 0).to(KIND)
        v = tl.where(inside, v, START)
        if NAME == "sum":
            made += v
        elif NAME == "prod":
            made *= v
        elif NAME == "amax":
            made = tl.where((v > made) | (v != v), v, made)  # True for NaN
        else:
            made = tl.where((v < made) | (v != v), v, made)  # True for NaN
    if KIND.is_floating() and (NAME == "amax" or NAME == "amin"):  # noqa: PLR1714  # jit knows no `in`
        is_nan = made != made
        folded = _fold_lanes(tl.where(is_nan, START, made), NAME)
        folded = tl.where(tl.max(is_nan.to(tl.int32), 1) != 0, float("nan"), folded)
    else:
        folded = _fold_lanes(made, NAME)
    if IS_MEAN:
        folded = divide(folded, tl.zeros_like(folded) + count)
    place = out + (number.to(tl.int64) * rows + row)
    if out.dtype.element_ty == tl.int1:
        tl.store(place, folded != 0, mask=row < rows)
    else:
        tl.store(place, folded.to(out.dtype.element_ty), mask=row < rows)


# --- positions: argmax, argmin ----------------------------------------------------------------------------------------


@triton.jit
def _find_first(best, at, LARGEST: tl.constexpr, START: tl.constexpr):
    """The best element of each row, and the first of its positions. Two of [rows, columns] -> two of [rows]."""
    is_nan = best != best  # False for integers
    known = tl.where(is_nan, START, best)
    top = tl.max(known, 1) if LARGEST else tl.min(known, 1)
    first = tl.min(tl.where(known == top[:, None], at, _LAST), 1)
    first_nan = tl.min(tl.where(is_nan, at, _LAST), 1)
    if best.dtype.is_floating():
        top = tl.where(first_nan < _LAST, float("nan"), top)
        first = tl.where(first_nan < _LAST, first_nan, first)
    return top, first


@triton.jit
def _position(
    x,
    values,
    out,
    rows,
    columns,
    part,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    LARGEST: tl.constexpr,
    START: tl.constexpr,
    KIND: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program (r, p) finds the best element of part p of ROWS rows, compared in KIND; `out` is [parts, rows].

    `values` takes the elements themselves, if it is not None. START is no better than any element.
    """
    number = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x += spread(row, row_sizes, row_steps, True)[:, None]
    end = tl.minimum((number + 1) * part, columns)
    best = tl.full([ROWS, COLUMNS], START, KIND)
    at = tl.full([ROWS, COLUMNS], _LAST, tl.int32)
    for first in range(number * part, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows)[:, None] & (column < end)
        v = tl.load(x + spread(column, column_sizes, column_steps, WIDE), mask=inside, other=0).to(KIND)
        better = v > best if LARGEST else v < best
        # The first element of a lane counts even if it is no better than START; nothing is better than NaN.
        better |= (at == _LAST) | ((v != v) & (best == best))
        better &= inside
        best = tl.where(better, v, best)
        at = tl.where(better, column, at)
    top, first_of = _find_first(best, at, LARGEST, START)
    place = number.to(tl.int64) * rows + row
    if values is not None:
        tl.store(values + place, top, mask=row < rows)
    tl.store(out + place, first_of.to(out.dtype.element_ty), mask=row < rows)


@triton.jit
def _position_merge(
    values,
    positions,
    out,
    rows,
    parts,
    LARGEST: tl.constexpr,
    START: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Each program finds the best of `values` [parts, rows] for ROWS rows, and writes its position."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    each = tl.arange(0, PARTS)[None, :]
    inside = (row < rows)[:, None] & (each < parts)
    place = each.to(tl.int64) * rows + row[:, None]
    best = tl.load(values + place, mask=inside, other=START)
    at = tl.load(positions + place, mask=inside, other=_LAST)
    _top, first = _find_first(best, at, LARGEST, START)
    tl.store(out + row, first.to(out.dtype.element_ty), mask=row < rows)


# --- variance ---------------------------------------------------------------------------------------------------------


@triton.jit
def _divide_by_freedom(squares, count, CORRECTION: tl.constexpr):
    """Squares / max(count - CORRECTION, 0)."""
    freedom = tl.zeros_like(squares) + count - CORRECTION
    return divide(squares, tl.where(freedom > 0, freedom, 0.0))


@triton.jit
def _variance(
    x,
    means,
    out,
    rows,
    columns,
    part,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    CORRECTION: tl.constexpr,
    KIND: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program computes the variances of ROWS rows, in KIND, or begins with part p if it is program (r, p).

    For parts, `means` and `out` take mean and sum of squared distances, [parts, rows] each; else `means` is None.
    """
    number = tl.program_id(1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    x += spread(row, row_sizes, row_steps, True)
    end = tl.minimum((number + 1) * part, columns)
    mean = tl.zeros([ROWS, 1], KIND)
    squares = tl.zeros([ROWS, 1], KIND)
    for first in range(number * part, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)[None, :]
        inside = (row < rows) & (column < end)
        v = tl.load(x + spread(column, column_sizes, column_steps, WIDE), mask=inside, other=0).to(KIND)
        mean, squares = merge_block(mean, squares, first - number * part, v, inside, tl.minimum(end - first, COLUMNS))
    place = number.to(tl.int64) * rows + row
    if means is None:
        squares = _divide_by_freedom(squares, columns, CORRECTION)
    else:
        tl.store(means + place, mean, mask=row < rows)
    tl.store(out + place, squares.to(out.dtype.element_ty), mask=row < rows)


@triton.jit
def _variance_merge(
    means, squares, out, rows, columns, part, parts, CORRECTION: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr
):
    """Each program merges `means` and `squares`, [parts, rows] each, of ROWS rows of `columns` elements."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    each = tl.arange(0, PARTS)[None, :]
    inside = (row < rows) & (each < parts)
    place = each.to(tl.int64) * rows + row
    mean = tl.load(means + place, mask=inside, other=0)
    count = tl.zeros_like(mean) + tl.where(each < parts, tl.minimum(columns - each * part, part), 0)
    total = tl.sum(mean * count, 1, keep_dims=True)
    apart = tl.where(inside, mean - divide(total, tl.zeros_like(total) + columns), 0.0)
    own = tl.load(squares + place, mask=inside, other=0)
    made = _divide_by_freedom(tl.sum(own + count * apart * apart, 1, keep_dims=True), columns, CORRECTION)
    tl.store(out + row, made.to(out.dtype.element_ty), mask=row < rows)


# --- running sums and products ----------------------------------------------------------------------------------------


@triton.jit
def _running(
    x,
    out,
    rows,
    columns,
    row_sizes,
    row_steps,
    column_sizes,
    column_steps,
    IS_PRODUCT: tl.constexpr,
    KIND: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Each program goes along ROWS rows and takes the last result of a block to the next. Steps are those of x, out."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, COLUMNS)[None, :]
    x += spread(row, row_sizes, row_steps[0], True)
    out += spread(row, row_sizes, row_steps[1], True)
    before = tl.full([ROWS, 1], 1 if IS_PRODUCT else 0, KIND)
    for first in range(0, columns, COLUMNS):
        column = first + lane
        inside = (row < rows) & (column < columns)
        v = tl.load(x + spread(column, column_sizes, column_steps[0], WIDE), mask=inside, other=0).to(KIND)
        made = tl.cumprod(v, 1) * before if IS_PRODUCT else tl.cumsum(v, 1) + before
        place = out + spread(column, column_sizes, column_steps[1], WIDE)
        tl.store(place, made.to(out.dtype.element_ty), mask=inside)
        before = tl.sum(tl.where(lane == COLUMNS - 1, made, tl.zeros_like(made)), 1, keep_dims=True)


# --- plans -----------------------------------------------------------------------------------------------------------


class _Work(NamedTuple):
    """How a reduction is shared out. `parts` is 1 if rows are not split; `arguments` are of the first launch."""

    rows: AxisGroup
    columns: AxisGroup
    block: Block
    parts: int
    arguments: dict[str, Any]

    @property
    def grid(self) -> tuple[int, int]:
        return count_programs(self.rows, self.block), self.parts

    @property
    def last_block(self) -> Block:
        """For the launch that merges parts."""
        wide = next_power_of_two(self.parts)
        return Block(min(next_power_of_two(self.rows.total), max(1024 // wide, 1)), wide)

    @property
    def last_grid(self) -> tuple[int]:
        return (count_blocks(self.rows.total, self.last_block.rows),)


def _share_out(request: Request, elements: int, *, split: bool) -> _Work | None:
    """None if there is nothing to split, or too much of anything."""
    x = request.need(0)
    axes = request.attributes["axes"] if "axes" in request.attributes else (request.attributes["axis"],)
    axes = sorted((axis % len(x.shape) for axis in axes), key=lambda axis: -x.strides[axis])
    rows, columns = walk_rows(x.shape, [x.strides], axes)
    if max(rows.total, columns.total) > MOST or not request.output.is_dense:
        return None
    multiprocessors = request.device.multiprocessors
    block = choose_block(rows, columns, multiprocessors, elements // 2 if split else elements)
    parts, part = 1, max(columns.total, 1)
    if split:
        parts, part = count_parts(count_programs(rows, block), columns.total, block.columns, multiprocessors)
        if parts == 1:
            return None
    arguments = {"x": x.pointer(), "part": part} | describe_rows(rows, columns, block)
    arguments |= {"row_steps": rows.steps[0], "column_steps": columns.steps[0]}  # of x, the only operand
    return _Work(rows, columns, block, parts, arguments)


def _kind_of(dtype: str, *, grows: bool = False) -> str:
    """The type in which a reduction computes. Where results grow, integers have 64 bits; they wrap when stored."""
    if grows and "int" in dtype:
        return "int64"
    if dtype in ("float64", "int64"):
        return dtype
    return "float32" if dtype in ("float16", "bfloat16", "float32") else "int32"


_TYPES = {"float32": tl.float32, "float64": tl.float64, "int32": tl.int32, "int64": tl.int64}


def _worst(kind: str, *, largest: bool) -> float | int:
    """The smallest number of a type, or the largest if the smallest is requested."""
    if kind.startswith("float"):
        return float("-inf") if largest else float("inf")
    bits = int(kind[3:]) - 1
    return -(1 << bits) if largest else (1 << bits) - 1


def _sizeof(kind: str) -> int:
    return 8 if kind.endswith("64") else 4


_FOLDS = ("sum", "mean", "prod", "amax", "amin", "any", "all")


def _plan_fold(request: Request, *, split: bool) -> Answer:
    op, dtype = request.op, request.need(0).dtype
    work = _share_out(request, ELEMENTS // 4 if op == "prod" else ELEMENTS, split=split)
    if work is None:
        return None
    name = {"mean": "sum", "any": "amax", "all": "amin"}.get(op, op)
    is_test = op in ("any", "all")
    kind = _kind_of(dtype, grows=name in ("sum", "prod"))
    start = {"sum": 0, "prod": 1}.get(name, _worst(kind, largest=name == "amax"))
    if is_test:
        start = 0 if op == "any" else 1
    arguments = work.arguments | {"NAME": name, "START": start, "KIND": _TYPES[kind], "count": work.columns.total}
    final = {"out": request.output.pointer(), "IS_TEST": is_test, "IS_MEAN": op == "mean"}
    if not split:
        return Launches((Launch(_fold, work.grid, arguments | final, work.block.options),))
    partial = {"out": Scratch(0, kind), "IS_TEST": is_test, "IS_MEAN": False}
    first = Launch(_fold, work.grid, arguments | partial, work.block.options)
    again = {"x": Scratch(0, kind), "columns": work.parts, "part": work.parts, "WIDE": False}
    again |= {"row_sizes": (work.rows.total,), "row_steps": (1,)}
    again |= {"column_sizes": (work.parts,), "column_steps": (work.rows.total,)}
    again |= {"ROWS": work.last_block.rows, "COLUMNS": work.last_block.columns}
    second = Launch(_fold, (*work.last_grid, 1), arguments | final | again, work.last_block.options)
    return Launches((first, second), work.rows.total * work.parts * _sizeof(kind))


@kernel(*_FOLDS, variant="split")
def plan_fold_split(request: Request) -> Answer:
    """Few long rows."""
    return _plan_fold(request, split=True)


@kernel(*_FOLDS, variant="loop")
def plan_fold(request: Request) -> Answer:
    """Any rows."""
    return _plan_fold(request, split=False)


def _plan_position(request: Request, *, split: bool) -> Answer:
    work = _share_out(request, ELEMENTS, split=split)
    if work is None:
        return None
    kind, largest = _kind_of(request.need(0).dtype), request.op == "argmax"
    shared = {"LARGEST": largest, "START": _worst(kind, largest=largest)}
    arguments = work.arguments | shared | {"KIND": _TYPES[kind]}
    if not split:
        arguments |= {"values": None, "out": request.output.pointer()}
        return Launches((Launch(_position, work.grid, arguments, work.block.options),))
    nbytes = work.rows.total * work.parts * _sizeof(kind)
    values, positions = Scratch(0, kind), Scratch(nbytes, "int32")
    first = Launch(_position, work.grid, arguments | {"values": values, "out": positions}, work.block.options)
    last = shared | {"values": values, "positions": positions, "out": request.output.pointer()}
    last |= {
        "rows": work.rows.total,
        "parts": work.parts,
        "ROWS": work.last_block.rows,
        "PARTS": work.last_block.columns,
    }
    second = Launch(_position_merge, work.last_grid, last, work.last_block.options)
    return Launches((first, second), nbytes + work.rows.total * work.parts * 4)


@kernel("argmax", "argmin", variant="split")
def plan_position_split(request: Request) -> Answer:
    """Few long rows, such as the next token of a decoder."""
    return _plan_position(request, split=True)


@kernel("argmax", "argmin", variant="loop")
def plan_position(request: Request) -> Answer:
    """Any rows."""
    return _plan_position(request, split=False)


def _plan_variance(request: Request, *, split: bool) -> Answer:
    work = _share_out(request, ELEMENTS, split=split)
    if work is None:
        return None
    kind, correction = _kind_of(request.need(0).dtype), {"CORRECTION": float(request.attributes["correction"])}
    arguments = work.arguments | correction | {"KIND": _TYPES[kind]}
    if not split:
        arguments |= {"means": None, "out": request.output.pointer()}
        return Launches((Launch(_variance, work.grid, arguments, work.block.options),))
    nbytes = work.rows.total * work.parts * _sizeof(kind)
    means, squares = Scratch(0, kind), Scratch(nbytes, kind)
    first = Launch(_variance, work.grid, arguments | {"means": means, "out": squares}, work.block.options)
    last = correction | {"means": means, "squares": squares, "out": request.output.pointer(), "parts": work.parts}
    last |= {name: work.arguments[name] for name in ("rows", "columns", "part")}
    last |= {"ROWS": work.last_block.rows, "PARTS": work.last_block.columns}
    return Launches((first, Launch(_variance_merge, work.last_grid, last, work.last_block.options)), 2 * nbytes)


@kernel("var", variant="split")
def plan_variance_split(request: Request) -> Answer:
    """Few long rows."""
    return _plan_variance(request, split=True)


@kernel("var", variant="loop")
def plan_variance(request: Request) -> Answer:
    """Any rows."""
    return _plan_variance(request, split=False)


@kernel("cumsum", "cumprod", variant="loop")
def plan_running(request: Request) -> Answer:
    """A program follows its rows from end to end."""
    shape, axis = request.output.shape, request.attributes["axis"]
    strides = [request.need(0).strides, request.output.strides]
    rows, columns = walk_rows(shape, strides, [axis])
    if max(rows.total, columns.total) > MOST:
        return None
    block = choose_block(rows, columns, request.device.multiprocessors, ELEMENTS // 2)
    kind = _kind_of(request.output.dtype, grows=True)
    arguments: dict[str, Any] = {"x": request.need(0).pointer(), "out": request.output.pointer()}
    arguments |= {"IS_PRODUCT": request.op == "cumprod", "KIND": _TYPES[kind]}
    arguments |= describe_rows(rows, columns, block)
    return Launches((Launch(_running, (count_programs(rows, block),), arguments, block.options),))
