"""Layouts of operands: axes that can be walked by one stride, rows, and what is left to several launches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.targets.triton.kernel_table import Tensor


def broadcast_strides(tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an operand for each axis of `shape`, to which it is broadcast."""
    missing = len(shape) - len(tensor.shape)
    own = [0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)]
    return (*[0] * missing, *own)


def join_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Join neighbouring axes where all operands go on evenly from one to the next.

    Returns the sizes of the axes that remain, at least one, and the strides of each operand for them.
    """
    sizes, kept = [1], [[0] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if all(last[-1] == steps[axis] * size for last, steps in zip(kept, strides, strict=True)) or sizes == [1]:
            sizes[-1] *= size
            for last, steps in zip(kept, strides, strict=True):
                last[-1] = steps[axis]
        else:
            sizes.append(size)
            for last, steps in zip(kept, strides, strict=True):
                last.append(steps[axis])
    return sizes, kept


class Rows(NamedTuple):
    """An operand as `number` rows of `width` adjacent elements, with `stride` elements from one row to the next."""

    number: int
    stride: int
    width: int


def as_rows(tensor: Tensor) -> Rows | None:
    """The rows along the last axis; None if they are not evenly spaced, or their elements are apart."""
    *leading, width = tensor.shape or (1,)
    *steps, unit = tensor.strides or (1,)
    sizes, (joined,) = join_axes(leading, [steps])
    if len(sizes) > 1 or (unit != 1 and width > 1):
        return None
    return Rows(math.prod(leading), joined[0] or width, width)


class SplitAxes(NamedTuple):
    """Axes of several operands after joining, which a kernel walks by itself.

    `starts` says for each launch how many elements each operand's first one lies further than in the first launch.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[int, ...], ...]


def plan_walk(shape: Sequence[int], strides: Sequence[Sequence[int]], kept: int) -> SplitAxes:
    """Join axes, and leave the last `kept` of those that remain to the kernel; others are walked by launches.

    Strides are 0 where an operand is broadcast. Fewer axes than `kept` are filled up in front, by axes of size 1.
    """
    sizes, joined = join_axes(shape, strides)
    lacking = max(kept - len(sizes), 0)
    sizes, joined = [1] * lacking + sizes, [[0] * lacking + own for own in joined]
    outer = len(sizes) - kept
    starts = tuple(
        tuple(sum(i * step for i, step in zip(index, own[:outer], strict=True)) for own in joined)
        for index in itertools.product(*map(range, sizes[:outer]))
    )
    return SplitAxes(tuple(sizes[outer:]), tuple(tuple(own[outer:]) for own in joined), starts)
