"""Ops that replace elements at positions given by integers; the rest stays as it is.

x is copied to the result, unless the result has the memory of x, and then values are written over it. What an op writes
twice to one place must be what is last in row-major order, though programs of a GPU have no order:

- scatter: a lane walks along the axis and writes in order; lanes share no places. It takes as many steps as the index
  has elements along the axis, which suits short ones (the experts of a token).
- index_put with one position (the cache of a decoded token) has nothing to order.
- index_put with up to `MOST_SCANNED` positions: each lane compares its position with all others, and leaves the write
  to the last one. The reads grow with the square of the number of positions.
- index_put with more: a launch keeps for each place the largest number of a position that names it (an atomic maximum,
  which is the same in any order), and each lane writes if its number was kept. Working memory: 4 bytes for each place
  that positions can name.

docs/gpu-results.md says what was measured.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import triton
import triton.language as tl

from engine.ops.table import broadcast
from engine.targets.triton.kernel_table import Answer, Request, kernel
from engine.targets.triton.kernels._layouts import broadcast_strides, join_axes
from engine.targets.triton.kernels._positions import (
    MOST_SCANNED,
    Block,
    Index,
    Positions,
    launch_move,
    place_axes,
    words_of,
)
from engine.targets.triton.kernels._source import (
    BLOCK,
    compile_text,
    coordinate_lines,
    dense_strides,
    dot_text,
    needs_64_bits,
    size_arguments,
    stride_arguments,
)
from engine.targets.triton.kernels.pointwise import launch_copy
from engine.targets.triton.launch import FAULT, Launch, Launches, Scratch, count_blocks

_LANES = 128  # a program of scatter, in which a lane writes many elements
_ENDS = ("index", "source", "target")  # operands of a scatter


def _launch_first_copy(request: Request) -> Launch:
    """The launch that copies input 0 to the result."""
    x, output = request.need(0), request.output
    return launch_copy(x, output)._replace(unless_shared=(x.position, output.position))


# --- index_put -------------------------------------------------------------------------------------------------------


@triton.jit
def _clear_claims(claims, total, BLOCK: tl.constexpr):
    """No position has claimed a place."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(claims + i, -1, mask=i < total)


def _launches_of_claims(block: Block, positions: Positions, claims: Scratch) -> tuple[Launch, ...]:
    """The launches that keep the last of equal positions."""
    total, steps = math.prod(positions.sizes), dense_strides(positions.sizes)
    indices = tuple(
        Index(one.tensor, strides, one.size, step)
        for one, strides, step in zip(block.indices, positions.strides, steps, strict=True)
    )
    nowhere = (0,) * len(positions.shape)
    claim = Block(positions.shape, None, nowhere, claims, nowhere, indices, block.wraps)
    grid = (max(count_blocks(total, BLOCK), 1),)
    clear = Launch(_clear_claims, grid, {"claims": claims, "total": total, "BLOCK": BLOCK}, {"num_warps": 4})
    return clear, launch_move(claim, "claim")


def _blocks_of(request: Request) -> tuple[Block, Positions]:
    """What index_put writes, and its positions."""
    x, values, output, axes = request.need(0), request.need(1), request.output, request.attributes["axes"]
    tensors = [request.need(2 + n) for n in range(len(axes))]
    common = broadcast(*(one.shape for one in tensors))
    front, origin = place_axes(x, axes, common)
    tail = [0] * (len(origin) - front - len(common))

    def widen(own: tuple[int, ...]) -> tuple[int, ...]:
        return (*[0] * front, *own, *tail)

    sizes_of_common = iter(common)
    shape = [next(sizes_of_common) if axis < 0 else x.shape[axis] for axis in origin]
    strides = tuple(broadcast_strides(one, common) for one in tensors)
    indices = tuple(
        Index(one, widen(own), x.shape[axis], output.strides[axis])
        for one, own, axis in zip(tensors, strides, axes, strict=True)
    )
    words = words_of(x.dtype)
    ends = (
        values.pointer(view=words),
        broadcast_strides(values, shape),
        output.pointer(view=words),
        tuple(0 if axis < 0 else output.strides[axis] for axis in origin),
    )
    sizes = tuple(x.shape[axis] for axis in axes)
    positions = Positions(common, strides, widen(dense_strides(common)), None, sizes)
    return Block(tuple(shape), *ends, indices, wraps=True), positions


@kernel("index_put", variant="loop")
def plan_index_put(request: Request) -> Answer:
    """Values at positions; the last of equal positions wins. Sums (`accumulate`) have no kernel."""
    if request.attributes["accumulate"]:
        return None
    block, positions = _blocks_of(request)
    copy, count, places = _launch_first_copy(request), math.prod(positions.shape), math.prod(positions.sizes)
    if count <= 1:
        return Launches((copy, launch_move(block, "write")))
    if count <= MOST_SCANNED:
        return Launches((copy, launch_move(block, "scan", positions)))
    if max(count, places) >= 1 << 31:
        return None
    claims = Scratch(0, "int32")
    write = launch_move(block, "claimed", positions._replace(claims=claims))
    return Launches((copy, *_launches_of_claims(block, positions, claims), write), 4 * max(places, 1))


# --- scatter ---------------------------------------------------------------------------------------------------------


@cache
def _make_scatter(names: tuple[str, ...], rank: int, wide: bool) -> Any:
    """The kernel that puts source[.., a, ..] at index[.., a, ..] for all `a`; lanes are the other coordinates.

    `rank` counts these axes after joining. `wide`: coordinates and strides need 64 bits.
    """
    start = "tl.program_id(0).to(tl.int64)" if wide else "tl.program_id(0)"
    lines = [f"i = {start} * BLOCK + tl.arange(0, BLOCK)", "inside = i < total", *coordinate_lines("i", "c", "n", rank)]
    lines += [f"{end} = {end} + ({dot_text('c', end[0], names)})" for end in _ENDS]
    body = [
        "steps = tl.zeros_like(i) + a",
        "x = tl.load(index + steps * index_step, mask=inside, other=0).to(tl.int64)",
        "ok = inside & (x >= 0) & (x < size)",
        "tl.store(fault + tl.zeros_like(i), 1, mask=inside != ok)",
        "moved = tl.load(source + steps * source_step, mask=ok)",
        "tl.store(target + x * target_step, moved, mask=ok)",
    ]
    return compile_text("scatter", names, [*lines, "for a in range(length):", *("    " + line for line in body)])


@kernel("scatter", variant="walk")
def plan_scatter(request: Request) -> Answer:
    """Elements of a source at positions along an axis; the last of equal positions wins. Reductions have no kernel."""
    if request.attributes["reduce"] != "none":
        return None
    x, index, source = (request.need(n) for n in range(3))
    axis, words = request.attributes["axis"], words_of(x.dtype)
    others = [a for a in range(len(x.shape)) if a != axis]
    strides = [one.strides for one in (index, source, request.output)]
    shape = [index.shape[a] for a in others]
    sizes, steps = join_axes(shape, [[own[a] for a in others] for own in strides])
    total = math.prod(shape)
    arguments: dict[str, Any] = {
        "index": index.pointer(),
        "source": source.pointer(view=words),
        "target": request.output.pointer(view=words),
        "fault": FAULT,
        "total": total,
        "length": index.shape[axis],
        "size": x.shape[axis],
        **size_arguments("n", sizes),
    }
    for end, own, joined in zip(_ENDS, strides, steps, strict=True):
        arguments |= {f"{end}_step": own[axis], **stride_arguments(end[0], joined)}
    function = _make_scatter(tuple(arguments), len(sizes), needs_64_bits(index.shape, strides))
    grid = (max(count_blocks(total, _LANES), 1),)
    launch = Launch(function, grid, {**arguments, "BLOCK": _LANES}, {"num_warps": 4})
    return Launches((_launch_first_copy(request), launch))
