"""What kernels over rows share: offsets in any layout, sizes of blocks, and statistics that are merged part by part.

A row is what a kernel reduces or normalises: the elements along some axes, its columns. The other axes number the rows.
Both groups of axes are joined where all operands go on evenly, and kernels take their sizes and strides as tuples, so
that dense operands need no division and other layouts are read where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import triton
import triton.language as tl

from engine.targets.triton.kernels._functions import divide, widen
from engine.targets.triton.kernels._layouts import join_axes
from engine.targets.triton.launch import count_blocks, next_power_of_two

MOST = (1 << 31) - (1 << 16)
"""Rows and columns are counted in 32 bits, and a block may reach beyond the last one."""


class AxisGroup(NamedTuple):
    """Axes of several operands after joining: their `sizes`, at least one, and the strides of each operand."""

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        return math.prod(self.sizes)

    @property
    def is_wide(self) -> bool:
        """True if the offset of an element, or of a lane beyond the last one, may need 64 bits."""
        reaches = (sum(n * abs(s) for n, s in zip(self.sizes, own, strict=True)) for own in self.steps)
        farthest = max(max(own) for own in self.steps)
        return max(*reaches, self.total) + (farthest << 13) >= 1 << 31


def walk_axes(shape: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]) -> AxisGroup:
    """Join `axes` of operands of one `shape`, in this order, where all go on evenly from one to the next."""
    sizes, steps = join_axes([shape[axis] for axis in axes], [[own[axis] for axis in axes] for own in strides])
    return AxisGroup(tuple(sizes), tuple(tuple(own) for own in steps))


def walk_rows(
    shape: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]
) -> tuple[AxisGroup, AxisGroup]:
    """The rows of operands, and their columns along `axes`; arguments as of `walk_axes`."""
    others = [axis for axis in range(len(shape)) if axis not in axes]
    return walk_axes(shape, strides, others), walk_axes(shape, strides, axes)


class Size(NamedTuple):
    """A candidate for the work of a program: elements that it holds at a time, and warps that share them."""

    elements: int
    warps: int


SIZES = (Size(256, 1), Size(512, 2), Size(1024, 4), Size(2048, 8), Size(4096, 16), Size(8192, 16))
_ROW_ELEMENTS = 8192  # of the largest block that holds whole rows; half as many of float64
_LOOP_ELEMENTS = 4096  # of a block that goes along rows; half as many of float64
_FEWEST_ROWS_ACROSS = 16  # neighbours in memory that are read together if columns lie apart
_FEWEST_BLOCKS = 4  # a shorter row is done before a second launch would have begun


class Block(NamedTuple):
    """The part of the rows and columns that a program holds at a time. Both sizes are powers of two."""

    rows: int
    columns: int

    @property
    def options(self) -> dict[str, int]:
        fitting = (one.warps for one in SIZES if one.elements >= self.rows * self.columns)
        return {"num_warps": next(fitting, SIZES[-1].warps)}


def choose_block(rows: AxisGroup, columns: AxisGroup, multiprocessors: int, elements: int) -> Block:
    """A block of at most `elements` elements.

    Rows that are neighbours in memory are read together. Otherwise a block has as many columns as fit, and several
    rows only if enough programs remain for every multiprocessor.
    """
    across = rows.steps[0][-1] == 1 and columns.steps[0][-1] != 1 and columns.total > 1
    most_rows, most_columns = next_power_of_two(rows.total), next_power_of_two(columns.total)
    if across:
        high = min(most_rows, 64)
        fewest = min(high, _FEWEST_ROWS_ACROSS)
        wide = min(most_columns, elements // high)
    else:
        fewest = 1
        wide = min(most_columns, elements)
        high = min(most_rows, max(1, min(elements, 2048) // wide))
    while high > fewest and count_blocks(rows.total, high) < multiprocessors and high * wide > SIZES[0].elements:
        high //= 2
    return Block(high, wide)


def choose_whole_rows(rows: AxisGroup, columns: AxisGroup, multiprocessors: int, dtype: str) -> Block | None:
    """A block that holds whole rows of `dtype`; None if a row does not fit or there are too many rows to count."""
    block = choose_block(rows, columns, multiprocessors, _limit_elements(dtype, _ROW_ELEMENTS))
    return block if block.columns >= next_power_of_two(columns.total) and rows.total <= MOST else None


def choose_loop(rows: AxisGroup, columns: AxisGroup, multiprocessors: int, dtype: str) -> Block | None:
    """A block that goes along rows of `dtype`; None if there are too many rows or columns to count."""
    if max(rows.total, columns.total) > MOST:
        return None
    return choose_block(rows, columns, multiprocessors, _limit_elements(dtype, _LOOP_ELEMENTS))


def _limit_elements(dtype: str, elements: int) -> int:
    return elements // 2 if dtype == "float64" else elements


def count_programs(rows: AxisGroup, block: Block) -> int:
    """Programs that take a block of the rows each; at least 1."""
    return max(count_blocks(rows.total, block.rows), 1)


def describe_rows(rows: AxisGroup, columns: AxisGroup, block: Block) -> dict[str, Any]:
    """Arguments that say to a kernel where rows and columns are, and how many a program holds."""
    arguments: dict[str, Any] = {"rows": rows.total, "row_sizes": rows.sizes, "row_steps": rows.steps}
    arguments |= {"columns": columns.total, "column_sizes": columns.sizes, "column_steps": columns.steps}
    return arguments | {"WIDE": columns.is_wide, "ROWS": block.rows, "COLUMNS": block.columns}


def count_parts(programs: int, columns: int, block: int, multiprocessors: int) -> tuple[int, int]:
    """Into how many parts to split rows so that every multiprocessor has work, and the columns of a part.

    Without a split there are `programs`. A part is a multiple of `block`, the columns that a program holds at a time.
    """
    requested, blocks = min(2 * multiprocessors // max(programs, 1), 256), count_blocks(columns, block)
    if programs >= multiprocessors or requested < 2 or blocks < _FEWEST_BLOCKS:
        return 1, max(columns, 1)
    part = max(blocks // requested, 1) * block
    return count_blocks(columns, part), part


@triton.jit
def spread(i, sizes, steps, WIDE: tl.constexpr):
    """Offsets of the elements numbered `i` of a `AxisGroup`, in elements. WIDE: in 64 bits."""
    offset = tl.zeros_like(i)
    if WIDE:
        offset = offset.to(tl.int64)
    for axis in tl.static_range(len(sizes) - 1, 0, -1):
        at = i % sizes[axis]
        i = i // sizes[axis]
        if WIDE:
            at = at.to(tl.int64)
        offset += at * steps[axis]
    if WIDE:
        i = i.to(tl.int64)
    return offset + i * steps[0]


@triton.jit
def load_sum(x, addend, inside):
    """The elements at the pointers `x`, plus those at `addend` if it is not None, 0 outside; as float32 or float64.

    The sum is rounded to the element type first, as an op of its own would round it.
    """
    made = tl.load(x, mask=inside, other=0)
    if addend is not None:
        made = (widen(made) + widen(tl.load(addend, mask=inside, other=0))).to(made.dtype)
    return widen(made)


@triton.jit
def largest(x):
    """The largest element of each row that is a number, -inf if there is none. [rows, columns] -> [rows, 1]."""
    return tl.max(tl.where(x == x, x, float("-inf")), 1, keep_dims=True)  # False for NaN


@triton.jit
def merge_block(mean, squares, before, values, inside, new):
    """Mean and sum of squared distances from it, after some more columns (Chan, Golub and LeVeque 1979).

    `mean` and `squares`, [rows, 1], are of the `before` columns so far. Of `values`, [rows, columns], those `inside`
    count, `new` columns.
    """
    new = tl.zeros_like(mean) + new
    before = tl.zeros_like(mean) + before
    share = divide(new, before + new)
    own = divide(tl.sum(values, 1, keep_dims=True), new)
    centred = tl.where(inside, values - own, 0.0)
    apart = own - mean
    squares += tl.sum(centred * centred, 1, keep_dims=True) + apart * apart * before * share
    return mean + apart * share, squares
