"""Rotary embedding: one pass over the rows of x, each row turned by its own cosines and sines.

A program takes a block of rows, reads both halves of each row once, and makes both halves of the result. Operands are
read by strides along up to four axes after joining, so a permuted x (heads and rows exchanged) needs no copy. Bytes
decide its time. docs/gpu-results.md says what was measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import triton
import triton.language as tl

from engine.targets.plan import NEEDS_DENSE
from engine.targets.triton.kernel_table import Answer, Request, kernel
from engine.targets.triton.kernels._functions import widen
from engine.targets.triton.kernels._layouts import broadcast_strides, plan_walk
from engine.targets.triton.launch import Launch, Launches, count_blocks, next_power_of_two


class Rows(NamedTuple):
    """A configuration of the kernel: elements of half rows that a program takes (one half row at least), and warps."""

    elements: int
    num_warps: int


CANDIDATES = (Rows(512, 4), Rows(1024, 4), Rows(2048, 8))
_KEPT = 4  # axes for which the kernel has strides
_MAX_LAUNCHES = 16  # more of them cost more than copies


@triton.jit
def turn_rows(
    x, cos, sin, out, rows, half,
    n1, n2, n3,  # sizes of the last three of four axes; then strides of the operands
    x0, x1, x2, x3, c0, c1, c2, c3, s0, s1, s2, s3, o0, o1, o2, o3,
    ROWS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """A block of ROWS rows of 2 * `half` elements."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i3 = row % n3
    i2 = row // n3 % n2
    i1 = row // n3 // n2 % n1
    i0 = row // n3 // n2 // n1
    column = tl.arange(0, HALF)[None, :]
    inside = (row < rows)[:, None] & (column < half)
    of_x = x + (i0 * x0 + i1 * x1 + i2 * x2 + i3 * x3)[:, None] + column
    of_cos = cos + (i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3)[:, None] + column
    of_sin = sin + (i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3)[:, None] + column
    of_out = out + (i0 * o0 + i1 * o1 + i2 * o2 + i3 * o3)[:, None] + column
    low = widen(tl.load(of_x, mask=inside, other=0))
    high = widen(tl.load(of_x + half, mask=inside, other=0))
    cos_low = widen(tl.load(of_cos, mask=inside, other=0))
    cos_high = widen(tl.load(of_cos + half, mask=inside, other=0))
    sin_low = widen(tl.load(of_sin, mask=inside, other=0))
    sin_high = widen(tl.load(of_sin + half, mask=inside, other=0))
    tl.store(of_out, (low * cos_low - high * sin_low).to(out.dtype.element_ty), mask=inside)
    tl.store(of_out + half, (high * cos_high + low * sin_high).to(out.dtype.element_ty), mask=inside)


def _choose(half: int, rows: int, multiprocessors: int) -> Rows:
    """The largest programs of which each multiprocessor still has four."""
    enough = [one for one in CANDIDATES if half * rows >= one.elements * multiprocessors * 4]
    return enough[-1] if enough else CANDIDATES[0]


@kernel("rope", variant="rows")
def plan_rope(request: Request) -> Answer:
    """A program takes a block of rows."""
    output = request.output
    if not math.prod(output.shape):
        return Launches(())
    operands = (*(request.need(position) for position in range(3)), output)
    if any(one.strides[-1] != 1 for one in operands):
        return NEEDS_DENSE
    lead = output.shape[:-1]
    walk = plan_walk(lead, [broadcast_strides(one, output.shape)[:-1] for one in operands], _KEPT)
    if len(walk.starts) > _MAX_LAUNCHES and not request.copied:
        return NEEDS_DENSE
    rows, half = math.prod(walk.sizes), output.shape[-1] // 2
    chosen = _choose(half, rows, request.device.multiprocessors)
    width = next_power_of_two(half)
    block = max(chosen.elements // width, 1)
    arguments = {"rows": rows, "half": half, "ROWS": block, "HALF": width}
    arguments |= {f"n{axis}": size for axis, size in enumerate(walk.sizes) if axis}
    for letter, steps in zip("xcso", walk.strides, strict=True):
        arguments |= {f"{letter}{axis}": step for axis, step in enumerate(steps)}
    launches = []
    for starts in walk.starts:
        places = zip(("x", "cos", "sin", "out"), operands, starts, strict=True)
        pointers = {name: one.pointer(start) for name, one, start in places}
        options = {"num_warps": chosen.num_warps}
        launches.append(Launch(turn_rows, (count_blocks(rows, block),), pointers | arguments, options))
    return Launches(tuple(launches))
