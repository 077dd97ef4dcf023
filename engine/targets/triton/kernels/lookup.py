"""Ops that read rows or elements at positions given by integers.

The loop over elements takes each flat number apart into coordinates and reads the index of every element. Strides of 0
are left out of its text, so that the compiler sees that a row has one index, and moves 16 bytes at a time. For rows of
tables, a program moves a tile of rows: one load of an index and no division, where the loop has 8 of each for 16 bytes,
and one scale for each encoded row. DRAM moves the same bytes, so we expect a small gain for large tables of plain
elements. Nothing of it was measured.

`embedding_norm`: a program holds a row in registers, reads each term once and writes the result once. Separate steps
would move 40 bytes an element more for three tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from engine.encodings import Encoding
from engine.ops.table import broadcast
from engine.targets.plan import NEEDS_DENSE
from engine.targets.triton.kernel_table import Answer, Request, Tensor, kernel
from engine.targets.triton.kernels import _functions as _f
from engine.targets.triton.kernels._layouts import broadcast_strides, join_axes
from engine.targets.triton.kernels._positions import Block, Index, launch_move, place_axes, words_of
from engine.targets.triton.launch import FAULT, Launch, Launches, count_blocks, next_power_of_two

ENCODINGS = ("bfloat16", "float16", "int8_channel", "int8_tensor")
TILES = ((1, 1024), (1, 512), (2, 256), (4, 256), (4, 128), (8, 128), (16, 64))
"""Rows and columns that a program of `_copy_rows` moves."""
WIDEST = 16384
"""Columns up to which a program of `_normalize_rows` holds a row in registers: 32 float32 of a thread."""
_MOST_COLUMN_TILES = 65535  # the second axis of a grid


def scales_of(encoding: Encoding | None) -> int | None:
    """How a table's scales lie: 0 none, 1 one for all, 2 one a row; None if there is no kernel for the encoding."""
    if encoding is None or encoding.family in ("bfloat16", "float16"):
        return 0
    if encoding.family == "int8_tensor":
        return 1
    return 2 if encoding.family == "int8_channel" and encoding.axis == 0 else None


# --- rows of a table -------------------------------------------------------------------------------------------------


@triton.jit
def _copy_rows(
    table, ids, scale, out, fault, rows, columns, height, table_step, id_step, out_step,
    SCALES: tl.constexpr, DECODES: tl.constexpr, WRAPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """out[r] = table[ids[r]] for ROWS rows and COLUMNS columns; a row of a bad id is 0."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row < rows
    number = tl.load(ids + row * id_step, mask=inside, other=0).to(tl.int64)
    if WRAPS:
        number = tl.where(number < 0, number + height, number)
    ok = inside & (number >= 0) & (number < height)
    tl.store(fault + tl.zeros_like(row), 1, mask=inside != ok)
    across = column[None, :] < columns
    x = tl.load(table + number[:, None] * table_step + column[None, :], mask=ok[:, None] & across, other=0)
    if DECODES:
        x = x.to(tl.float32)
        if SCALES == 1:
            x = x * tl.load(scale)
        if SCALES == 2:
            x = x * tl.load(scale + number, mask=ok, other=0.0)[:, None]
        x = x.to(out.dtype.element_ty)
    tl.store(out + row[:, None] * out_step + column[None, :], x, mask=inside[:, None] & across)


def choose_tile(rows: int, columns: int, multiprocessors: int) -> tuple[int, int]:
    """The tile of `TILES` that wastes the fewest lanes; of equal ones, the largest that occupies the device."""

    def cost(tile: tuple[int, int]) -> tuple[int, bool, int]:
        covered = count_blocks(rows, tile[0]) * count_blocks(columns, tile[1])
        elements = tile[0] * tile[1]
        return covered * elements, covered < 2 * multiprocessors, -elements

    return min(TILES, key=cost)


def _launch_rows(request: Request, *, wraps: bool = False) -> Answer:
    """The rows of a table [V, ...] at ids of any shape; `wraps`: negative ids count from the end."""
    table, ids = request.need(0), request.need(1)
    scales = scales_of(table.encoding)
    columns, rows = math.prod(table.shape[1:]), math.prod(ids.shape)
    if scales is None or (table.encoding is None and columns < 64):
        return None
    lead, (id_strides,) = join_axes(ids.shape, [ids.strides])
    _trailing, (column_strides,) = join_axes(table.shape[1:], [table.strides[1:]])
    if len(lead) > 1 or len(column_strides) > 1 or (columns > 1 and column_strides[0] != 1):
        return NEEDS_DENSE
    tile = choose_tile(rows, columns, request.device.multiprocessors)
    grid = (max(count_blocks(rows, tile[0]), 1), max(count_blocks(columns, tile[1]), 1))
    if grid[1] > _MOST_COLUMN_TILES:
        return None
    decodes = table.encoding is not None
    words = "" if decodes else words_of(table.dtype)
    arguments = {
        "table": table.pointer(view=words),
        "ids": ids.pointer(),
        "scale": table.scale.pointer() if table.scale else None,
        "out": request.output.pointer(view=words),
        "fault": FAULT,
        "rows": rows,
        "columns": columns,
        "height": table.shape[0],
        "table_step": table.strides[0],
        "id_step": id_strides[0],
        "out_step": columns,
        "SCALES": scales,
        "DECODES": decodes,
        "WRAPS": wraps,
        "ROWS": tile[0],
        "COLUMNS": tile[1],
    }
    return Launches((Launch(_copy_rows, grid, arguments, {"num_warps": 4}),))


@kernel("embedding", variant="rows", encodings=ENCODINGS)
def plan_embedding_rows(request: Request) -> Answer:
    """Rows of a table. Those of int8 tables are rounded to float32 first, then to results of 16 bits."""
    return _launch_rows(request)


@kernel("index_select", variant="rows")
def plan_index_select_rows(request: Request) -> Answer:
    """Along the first axis, index_select reads rows as embedding does."""
    return _launch_rows(request) if request.attributes["axis"] == 0 else None


@kernel("index", variant="rows")
def plan_index_rows(request: Request) -> Answer:
    """An index of the first axis alone reads rows, too; negative ones count from the end."""
    return _launch_rows(request, wraps=True) if tuple(request.attributes["axes"]) == (0,) else None


# --- any elements ----------------------------------------------------------------------------------------------------


def _launch_read(request: Request, strides: Sequence[int], indices: Sequence[Index], *, wraps: bool = False) -> Answer:
    """The elements of input 0, whose strides for each axis of the result are `strides`, moved on by indices."""
    x, output = request.need(0), request.output
    words = words_of(x.dtype)
    ends = (x.pointer(view=words), tuple(strides), output.pointer(view=words), output.strides)
    return Launches((launch_move(Block(output.shape, *ends, tuple(indices), wraps), "read"),))


def _plan_slices(request: Request, axis: int) -> Answer:
    """Slices along an axis; the axes of the index take the place of that axis."""
    x, index = request.need(0), request.need(1)
    before, after = x.strides[:axis], x.strides[axis + 1 :]
    strides = (*before, *[0] * len(index.shape), *after)
    index_strides = (*[0] * len(before), *index.strides, *[0] * len(after))
    return _launch_read(request, strides, [Index(index, index_strides, x.shape[axis], x.strides[axis])])


@kernel("embedding", variant="loop")
def plan_embedding(request: Request) -> Answer:
    """Plain tables with any strides, and narrow ones."""
    return _plan_slices(request, 0)


@kernel("index_select", variant="loop")
def plan_index_select(request: Request) -> Answer:
    """Slices along any axis."""
    return _plan_slices(request, request.attributes["axis"])


@kernel("gather", variant="loop")
def plan_gather(request: Request) -> Answer:
    """An index for each element."""
    x, index = request.need(0), request.need(1)
    axis = request.attributes["axis"]
    strides = [0 if a == axis else stride for a, stride in enumerate(x.strides)]
    return _launch_read(request, strides, [Index(index, index.strides, x.shape[axis], x.strides[axis])])


@kernel("index", variant="loop")
def plan_index(request: Request) -> Answer:
    """x[..., i, j, ...]."""
    x, axes = request.need(0), request.attributes["axes"]
    tensors = [request.need(1 + n) for n in range(len(axes))]
    common = broadcast(*(one.shape for one in tensors))
    front, origin = place_axes(x, axes, common)
    strides = [0 if axis < 0 else x.strides[axis] for axis in origin]
    tail = [0] * (len(origin) - front - len(common))
    indices = [
        Index(one, (*[0] * front, *broadcast_strides(one, common), *tail), x.shape[axis], x.strides[axis])
        for axis, one in zip(axes, tensors, strict=True)
    ]
    return _launch_read(request, strides, indices, wraps=True)


# --- embedding_norm --------------------------------------------------------------------------------------------------


@triton.jit
def _read_term(values, ids, scale, place, id_place, inside, column, columns, height, step, fault, SCALES: tl.constexpr):
    """One row of a term, float32: of a table at an id (SCALES 0, 1, 2), or what is added as it is (SCALES -1)."""
    if SCALES == -1:
        x = tl.load(values + place + column, mask=inside & (column < columns), other=0.0)
    else:
        number = tl.load(ids + id_place, mask=inside, other=0).to(tl.int64)
        ok = inside & (number >= 0) & (number < height)
        tl.store(fault, 1, mask=inside != ok)
        x = tl.load(values + number * step + column, mask=ok & (column < columns), other=0).to(tl.float32)
        if SCALES == 1:
            x = x * tl.load(scale)
        if SCALES == 2:
            x = x * tl.load(scale + number, mask=ok, other=0.0)
    return x


@triton.jit
def _normalize_rows(
    values0, values1, values2, ids0, ids1, ids2, scale0, scale1, scale2, weight, bias, out, fault,
    rows, columns, n1, n2, height0, height1, height2, step0, step1, step2,
    a0, a1, a2, b0, b1, b2, c0, c1, c2, epsilon,
    SCALES0: tl.constexpr, SCALES1: tl.constexpr, SCALES2: tl.constexpr, CENTRES: tl.constexpr,
    WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A row of the norm of the sum of terms. Sizes of the leading axes: rows / (n1 * n2), n1, n2; a, b and c are the
    strides of terms (of ids for tables) along them.
    """
    row = tl.program_id(0).to(tl.int64)
    inside = row < rows
    column = tl.arange(0, BLOCK)
    last = row % n2
    middle = (row // n2) % n1
    first = row // n2 // n1
    at = first * a0 + middle * a1 + last * a2
    x = _read_term(values0, ids0, scale0, at, at, inside, column, columns, height0, step0, fault, SCALES0)
    if SCALES1 != -2:
        at = first * b0 + middle * b1 + last * b2
        x += _read_term(values1, ids1, scale1, at, at, inside, column, columns, height1, step1, fault, SCALES1)
    if SCALES2 != -2:
        at = first * c0 + middle * c1 + last * c2
        x += _read_term(values2, ids2, scale2, at, at, inside, column, columns, height2, step2, fault, SCALES2)
    across = column < columns
    if CENTRES:
        x = tl.where(across, x - tl.sum(x) / columns, 0.0)
    y = x / _f.sqrt(tl.sum(x * x) / columns + epsilon)
    if WEIGHT:
        y = y * tl.load(weight + column, mask=across, other=0.0)
    if BIAS:
        y = y + tl.load(bias + column, mask=across, other=0.0)
    tl.store(out + row * columns + column, y, mask=inside & across)


def _is_row(tensor: Tensor | None) -> bool:
    """True if the elements of the last axis lie side by side, or the tensor is absent."""
    return tensor is None or not tensor.shape or tensor.shape[-1] <= 1 or tensor.strides[-1] == 1


def _lead_strides(values: Tensor, ids: Tensor | None, lead: Sequence[int]) -> tuple[int, ...]:
    """Strides of the rows of a term along the leading axes of the result: of its ids, or of its own rows."""
    if ids is not None:
        return broadcast_strides(ids, lead)
    return broadcast_strides(values, (*lead, values.shape[-1]))[:-1]


@kernel("embedding_norm", variant="row", encodings=ENCODINGS)
def plan_embedding_norm(request: Request) -> Answer:
    """A program for each row, which it holds in registers. The result's leading axes must join to three or fewer."""
    pairs = [(request.find(2 * n), request.find(2 * n + 1)) for n in range(3)]
    terms = [(values, ids) for values, ids in pairs if values is not None]
    scales = [-1 if ids is None else scales_of(values.encoding) for values, ids in terms]
    columns, lead = request.output.shape[-1], request.output.shape[:-1]
    if None in scales or columns > WIDEST or any(ids is None and values.encoding for values, ids in terms):
        return None
    weight, bias = request.find(6), request.find(7)
    if not all(map(_is_row, (weight, bias, *(values for values, _ids in terms)))):
        return NEEDS_DENSE
    sizes, steps = join_axes(lead, [_lead_strides(values, ids, lead) for values, ids in terms])
    if len(sizes) > 3:
        return None
    padding = 3 - len(sizes)
    arguments: dict[str, Any] = {"n1": max([1, 1, *sizes][-2], 1), "n2": max(sizes[-1], 1)}
    for n in range(3):
        values, ids = terms[n] if n < len(terms) else (None, None)
        table = values if ids is not None else None
        arguments[f"SCALES{n}"] = -2 if values is None else scales[n]
        arguments[f"values{n}"] = values.pointer() if values else None
        arguments[f"ids{n}"] = ids.pointer() if ids else None
        arguments[f"scale{n}"] = values.scale.pointer() if values and values.scale else None
        arguments[f"height{n}"] = table.shape[0] if table else 0
        arguments[f"step{n}"] = table.strides[0] if table else 0
        own = [0] * padding + steps[n] if values else [0, 0, 0]
        arguments |= {f"{'abc'[n]}{axis}": stride for axis, stride in enumerate(own)}
    rows, block = math.prod(lead), next_power_of_two(columns)
    arguments |= {
        "weight": weight.pointer() if weight else None,
        "bias": bias.pointer() if bias else None,
        "out": request.output.pointer(),
        "fault": FAULT,
        "rows": rows,
        "columns": columns,
        "epsilon": float(request.attributes["epsilon"]),
        "CENTRES": request.attributes["norm"] == "layer_norm",
        "WEIGHT": weight is not None,
        "BIAS": bias is not None,
        "BLOCK": block,
    }
    warps = min(max(block // 512, 1), 16)
    return Launches((Launch(_normalize_rows, (max(rows, 1),), arguments, {"num_warps": warps}),))
