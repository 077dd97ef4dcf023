"""Moves elements whose place is named by indices: the kernels that `lookup` and `write` share, generated for each step.

A lane moves one element. Each index is read at the coordinates of its flat number, and adds its distance to the place
in the source (a read) or in the target (a write). An index that is out of range sets the fault word, and its lane reads
and writes nothing with it: a read makes 0 there. Elements are moved as integers of their size, so that element types of
one size share a kernel and no bit changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from engine import dtypes
from engine.targets.triton.kernel_table import Tensor
from engine.targets.triton.kernels._layouts import join_axes
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
from engine.targets.triton.launch import FAULT, Launch, Operand, Scratch, count_blocks

MOST_SCANNED = 64
"""Positions up to which each lane of a write compares its own with all others; beyond, positions are claimed first."""

Role = Literal["read", "write", "scan", "claim", "claimed"]


def words_of(dtype: str) -> str:
    """The integer type as which elements of a type are moved."""
    return f"int{8 * dtypes.dtype(dtype).size}"


class Index(NamedTuple):
    """An operand, int64 or int32, that names places along an axis.

    It has `strides` for each axis of what is moved; `size` is that of the axis that it indexes, and `step` the distance
    of neighbours along that axis, in elements.
    """

    tensor: Tensor
    strides: tuple[int, ...]
    size: int
    step: int


class Block(NamedTuple):
    """What is moved. `source` in a read, and `target` in a write, are without the places that the indices add.

    `source` is None for a claim. With `wraps`, negative indices count from the end.
    """

    shape: tuple[int, ...]
    source: Operand | None
    source_strides: tuple[int, ...]
    target: Operand | Scratch
    target_strides: tuple[int, ...]
    indices: tuple[Index, ...]
    wraps: bool


class Positions(NamedTuple):
    """The indices of a write on their own, broadcast to `shape`; the last of equal ones wins.

    Attributes:
        order: for each axis of what is moved, the distance of neighbours in the row-major order of positions.
        claims: the claim of each place that positions can name, in the working memory; None for a scan.
        sizes: of the axes that are indexed.
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    claims: Scratch | None
    sizes: tuple[int, ...]


# --- source text -----------------------------------------------------------------------------------------------------


class _Writer(NamedTuple):
    """Makes lines of a move; `names` are the kernel's parameters, and `indices` counts the indices."""

    names: tuple[str, ...]
    indices: int
    wraps: bool

    def read_indices(self, made: str, letter: str, stride: str, mask: str, zero: str) -> list[str]:
        """Lines that read the indices ``made0`` and so on at coordinates, in 64 bits."""
        lines = []
        for n in range(self.indices):
            where = f"index{n} + {dot_text(letter, f'{stride}{n}_', self.names, zero)}"
            lines.append(f"{made}{n} = tl.load({where}{mask}).to(tl.int64)")
            if self.wraps:
                lines.append(f"{made}{n} = tl.where({made}{n} < 0, {made}{n} + size{n}, {made}{n})")
        return lines

    def leave_out_early(self, scan_rank: int) -> list[str]:
        """Lines that leave out of `ok` each lane whose position is named again later."""
        differs = " | ".join(f"(y{n} != x{n})" for n in range(self.indices))
        body = coordinate_lines("k", "d", "m", scan_rank)
        body += self.read_indices("y", "d", "u", "", "0")
        body.append(f"ok = ok & ((number >= k) | {differs})")
        number = dot_text("c", "j", self.names)
        return [f"number = {number}", "for k in range(positions):", *("    " + line for line in body)]

    def leave_out_unclaimed(self) -> list[str]:
        """A line that leaves out of `ok` each lane that is not the one which its claim names."""
        claim = " + ".join(f"x{n} * w{n}" for n in range(self.indices))
        return [f"ok = ok & (tl.load(claims + ({claim}), mask=ok, other=0) == {dot_text('c', 'j', self.names)})"]


@cache
def make_kernel(
    names: tuple[str, ...], rank: int, count: int, role: Role, scan_rank: int, wraps: bool, wide: bool
) -> Any:
    """The kernel of a move, with parameters `names` as `launch_move` gives them, without strides of 0.

    `rank` and `scan_rank` count the axes of what is moved, and of the positions of a scan, after joining. `wide`:
    coordinates and strides need 64 bits. Roles: ``read``; ``write``, where no position is named twice; ``scan``, a
    write for which each lane looks for a later position like its own; ``claim``, which keeps the last number of each
    position; ``claimed``, a write of those that their claim names.
    """
    writer, indices = _Writer(names, count, wraps), range(count)
    start = "tl.program_id(0).to(tl.int64)" if wide else "tl.program_id(0)"
    lines = [f"i = {start} * BLOCK + tl.arange(0, BLOCK)", "inside = i < total", *coordinate_lines("i", "c", "n", rank)]
    lines += writer.read_indices("x", "c", "i", ", mask=inside, other=0", "tl.zeros_like(i)")
    lines.append("ok = inside & " + " & ".join(f"(x{n} >= 0) & (x{n} < size{n})" for n in indices))
    lines.append("tl.store(fault + tl.zeros_like(i), 1, mask=inside != ok)")
    place = " + ".join(f"x{n} * step{n}" for n in indices)
    source, target = (f"{end} + ({dot_text('c', end[0], names)})" for end in ("source", "target"))
    if role == "read":
        lines.append(f"moved = tl.load({source} + ({place}), mask=ok, other=0)")
        lines.append(f"tl.store({target}, moved, mask=inside)")
    elif role == "claim":
        lines.append(f"tl.atomic_max({target} + ({place}), i.to(tl.int32), mask=ok)")
    else:
        lines += writer.leave_out_early(scan_rank) if role == "scan" else []
        lines += writer.leave_out_unclaimed() if role == "claimed" else []
        lines.append(f"tl.store({target} + ({place}), tl.load({source}, mask=ok), mask=ok)")
    return compile_text(f"move_{role}", names, lines)


# --- launches --------------------------------------------------------------------------------------------------------


def launch_move(block: Block, role: Role, positions: Positions | None = None) -> Launch:
    """The launch that moves `block`; `positions` only for a ``scan`` or what is ``claimed``."""
    order = positions.order if positions else (0,) * len(block.shape)
    every = [block.target_strides, block.source_strides, order, *(one.strides for one in block.indices)]
    sizes, steps = join_axes(block.shape, every)
    total, scan_rank = math.prod(block.shape), 0
    arguments: dict[str, Any] = {"target": block.target, "fault": FAULT, "total": total}
    arguments |= size_arguments("n", sizes) | stride_arguments("t", steps[0])
    if role != "claim":
        arguments |= {"source": block.source, **stride_arguments("s", steps[1])}
    for n, (one, own) in enumerate(zip(block.indices, steps[3:], strict=True)):
        arguments |= {f"index{n}": one.tensor.pointer(), f"size{n}": one.size, f"step{n}": one.step}
        arguments |= stride_arguments(f"i{n}_", own)
    if positions:
        arguments |= stride_arguments("j", steps[2])
    if positions and role == "scan":
        scan_sizes, scan_steps = join_axes(positions.shape, positions.strides)
        scan_rank = len(scan_sizes)
        arguments |= {"positions": math.prod(positions.shape), **size_arguments("m", scan_sizes)}
        for n, own in enumerate(scan_steps):
            arguments |= stride_arguments(f"u{n}_", own)
    elif positions:
        claim_steps = enumerate(dense_strides(positions.sizes))
        arguments |= {"claims": positions.claims, **{f"w{n}": step for n, step in claim_steps}}
    wide = needs_64_bits(sizes, steps)
    function = make_kernel(tuple(arguments), len(sizes), len(block.indices), role, scan_rank, block.wraps, wide)
    return Launch(function, (max(count_blocks(total, BLOCK), 1),), {**arguments, "BLOCK": BLOCK}, {"num_warps": 4})


def place_axes(x: Tensor, axes: Sequence[int], common: Sequence[int]) -> tuple[int, list[int]]:
    """Where the axes of ``x[..., i, j, ...]`` come from, if indices of `axes` are broadcast to `common`.

    Returns the first axis of the indices in the result, and for each axis of the result the axis of x that it keeps, or
    -1 for those of the indices.
    """
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    front = axes[0] if tuple(axes) == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return front, [*kept[:front], *[-1] * len(common), *kept[front:]]
