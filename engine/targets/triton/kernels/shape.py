"""Ops that join elements, surround them or make them from nothing, and the triangles of matrices.

A concatenation is one copy for each operand. Padding fills the result, then copies the operand to its part.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from engine.ops import Layout
from engine.targets.plan import NEEDS_DENSE
from engine.targets.triton.kernel_table import Answer, Request, kernel
from engine.targets.triton.kernels.pointwise import launch_copy
from engine.targets.triton.launch import Launch, Launches, count_blocks

_BLOCK = 1024


@kernel("concat", variant="copies")
def plan_concat(request: Request) -> Answer:
    """Each operand is copied to its part of the result."""
    output, axis = request.output, request.attributes["axis"]
    axis, start, launches = axis % len(output.shape), 0, []
    for position in range(len(request.inputs)):
        source = request.need(position)
        part = output._replace(layout=Layout(source.shape, output.strides))
        if math.prod(source.shape):
            launches.append(launch_copy(source, part, at=output.pointer(start * output.strides[axis])))
        start += source.shape[axis]
    return Launches(tuple(launches))


@kernel("flip", variant="copy")
def plan_flip(request: Request) -> Answer:
    """The operand is copied to the result read backwards."""
    source, output, axes = request.need(0), request.output, request.attributes["axes"]
    if not math.prod(source.shape):
        return Launches(())
    strides = tuple(-stride if axis in axes else stride for axis, stride in enumerate(output.strides))
    last = sum((output.shape[axis] - 1) * output.strides[axis] for axis in axes)
    return Launches(
        (launch_copy(source, output._replace(layout=Layout(source.shape, strides)), at=output.pointer(last)),)
    )


@triton.jit
def _fill(out, total, START: tl.constexpr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    made = i.to(tl.float64) * STEP + START
    if out.dtype.element_ty == tl.int1:
        tl.store(out + i, made != 0, mask=i < total)
    else:
        tl.store(out + i, made.to(out.dtype.element_ty), mask=i < total)


def _launch_fill(request: Request, start: float, step: float) -> Launch:
    total = math.prod(request.output.shape)
    arguments = {"out": request.output.pointer(), "total": total, "START": start, "STEP": step, "BLOCK": _BLOCK}
    return Launch(_fill, (max(count_blocks(total, _BLOCK), 1),), arguments, {"num_warps": 4})


@kernel("full", variant="loop")
def plan_full(request: Request) -> Answer:
    """One value everywhere."""
    return Launches((_launch_fill(request, request.attributes["value"], 0.0),))


@kernel("arange", variant="loop")
def plan_arange(request: Request) -> Answer:
    """A range, computed in float64 as the op is defined."""
    return Launches((_launch_fill(request, request.attributes["start"], request.attributes["step"]),))


@kernel("pad", variant="fill")
def plan_pad(request: Request) -> Answer:
    """A constant everywhere, then a copy of the operand to its part of the result."""
    source, output, attributes = request.need(0), request.output, request.attributes
    if attributes["mode"] != "constant":
        return None
    fill = _launch_fill(request, attributes["value"], 0.0)
    if not math.prod(source.shape):
        return Launches((fill,))
    part = output._replace(layout=Layout(source.shape, output.strides))
    start = sum(low * stride for low, stride in zip(attributes["low"], output.strides, strict=True))
    return Launches((fill, launch_copy(source, part, at=output.pointer(start))))


@triton.jit
def _keep_triangle(x, out, total, rows, columns, diagonal, UPPER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    distance = i % columns - (i // columns) % rows - diagonal  # to the right of the diagonal
    kept = distance >= 0 if UPPER else distance <= 0
    tl.store(out + i, tl.load(x + i, mask=(i < total) & kept, other=0), mask=i < total)


@kernel("tril", "triu", variant="loop")
def plan_triangle(request: Request) -> Answer:
    """A flat loop over the matrices."""
    x = request.need(0)
    if not x.is_dense:
        return NEEDS_DENSE
    *_, rows, columns = x.shape
    total = math.prod(x.shape)
    arguments = {
        "x": x.pointer(),
        "out": request.output.pointer(),
        "total": total,
        "rows": max(rows, 1),
        "columns": max(columns, 1),
        "diagonal": min(max(request.attributes["diagonal"], -rows), columns),
        "UPPER": request.op == "triu",
        "BLOCK": _BLOCK,
    }
    return Launches((Launch(_keep_triangle, (max(count_blocks(total, _BLOCK), 1),), arguments, {"num_warps": 4}),))
