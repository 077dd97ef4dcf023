"""Axes that several operands share: which a kernel walks by one stride, and which need launches of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from engine.targets.triton.kernels.pointwise import join_axes


class Walk(NamedTuple):
    """Axes of several operands after joining.

    Attributes:
        sizes: of the axes that a kernel walks by itself.
        strides: of each operand, for each of `sizes`.
        starts: for each launch, how many elements each operand's first one lies further than that of the first launch.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[int, ...], ...]


def plan_walk(shape: Sequence[int], strides: Sequence[Sequence[int]], kept: int) -> Walk:
    """Join axes, and leave the last `kept` of those that remain to the kernel; others are walked by launches.

    Args:
        shape: sizes.
        strides: of each operand, for each axis of `shape`; 0 where it is broadcast.
        kept: number of axes for which the kernel has strides; fewer axes are filled up in front, by axes of size 1.
    """
    sizes, joined = join_axes(shape, strides)
    lacking = max(kept - len(sizes), 0)
    sizes, joined = [1] * lacking + sizes, [[0] * lacking + own for own in joined]
    outer = len(sizes) - kept
    starts = tuple(
        tuple(sum(i * step for i, step in zip(index, own[:outer], strict=True)) for own in joined)
        for index in itertools.product(*map(range, sizes[:outer]))
    )
    return Walk(tuple(sizes[outer:]), tuple(tuple(own[outer:]) for own in joined), starts)
