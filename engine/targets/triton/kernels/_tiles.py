"""Configurations of products of matrices: those that the kernels' rules choose, and further ones.

All fit into the shared memory of sm_90 and spill no register there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Tiling(NamedTuple):
    """A configuration of `tiles` or `vector`; `stages` blocks of operands are loaded ahead."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


TILES: Mapping[str, tuple[Tiling, ...]] = {
    "narrow": (
        Tiling(16, 64, 128, 4, 4),
        Tiling(32, 64, 128, 4, 4),
        Tiling(64, 128, 64, 4, 4),
        Tiling(128, 128, 64, 8, 3),
    ),
    "tf32": (
        Tiling(16, 64, 64, 4, 4),
        Tiling(32, 64, 64, 4, 4),
        Tiling(64, 128, 32, 4, 4),
        Tiling(128, 128, 32, 8, 3),
    ),
    "two_tf32": (
        Tiling(16, 64, 64, 4, 4),
        Tiling(32, 64, 64, 4, 4),
        Tiling(64, 128, 32, 8, 3),
        Tiling(128, 128, 32, 8, 3),
    ),
    "three_tf32": (
        Tiling(16, 64, 64, 4, 3),
        Tiling(32, 64, 32, 4, 3),
        Tiling(64, 32, 32, 4, 3),
        Tiling(128, 128, 32, 8, 3),
    ),
}
"""Arithmetic -> configurations of `tiles`. The rule takes the first one whose block has at least as many rows as the
product, else the last one; `FEWER_ROWS` and `FLOAT_ROWS` have the exceptions.

narrow: numbers of 16 bits. tf32: float32 that is rounded to TF32. The others are explained in `products`.
"""
MORE_TILES: Mapping[str, tuple[Tiling, ...]] = {
    "narrow": (
        Tiling(16, 32, 256, 4, 3),
        Tiling(16, 64, 64, 4, 6),
        Tiling(16, 128, 128, 4, 3),
        Tiling(32, 128, 64, 4, 4),
        Tiling(64, 64, 128, 4, 3),
        Tiling(64, 256, 64, 8, 3),
        Tiling(128, 64, 64, 8, 4),
    ),
    "tf32": (
        Tiling(16, 128, 64, 4, 3),
        Tiling(64, 64, 64, 4, 3),
        Tiling(128, 64, 32, 8, 4),
    ),
    "two_tf32": (Tiling(16, 128, 64, 4, 3), Tiling(64, 64, 64, 8, 3), Tiling(128, 64, 32, 8, 4)),
    "three_tf32": (Tiling(16, 32, 64, 4, 3), Tiling(64, 64, 32, 4, 3), Tiling(64, 128, 32, 4, 3)),
}
"""Further configurations, which only a measurement chooses."""
TIMED_ROWS = (64, 512)
"""For products of 16-bit numbers with more rows than the first and at most the second, times on an H100 decide the rule
(docs/gpu-results.md): blocks of 128 rows and columns leave most of the multiprocessors without work."""
FEWER_ROWS: tuple[Tiling, ...] = (Tiling(64, 128, 64, 4, 4), Tiling(64, 64, 128, 4, 3), Tiling(32, 64, 128, 4, 4))
"""The configurations that this rule chooses from, the largest first."""
FLOAT_ROWS: tuple[Tiling, ...] = (Tiling(128, 128, 32, 8, 3), Tiling(64, 128, 32, 4, 3), Tiling(64, 32, 32, 4, 3))
"""The same for float32 products of more than 64 rows. Where the columns of the weight are contiguous, and not its
summands, the last one is the fastest of the three."""
SPLIT_FROM = 2048
"""From so many summands of 16 bits on, sums are split among programs, and the first of `FEWER_ROWS` is the fastest."""
VECTORS = (Tiling(1, 16, 512, 4, 3), Tiling(2, 16, 256, 4, 3), Tiling(4, 16, 128, 4, 3))
"""For up to four rows; the rule takes the first one that has enough."""
MORE_VECTORS = (
    Tiling(1, 8, 1024, 4, 3),
    Tiling(1, 32, 256, 4, 3),
    Tiling(1, 16, 1024, 8, 3),
    Tiling(2, 8, 512, 4, 3),
    Tiling(2, 32, 128, 4, 3),
    Tiling(4, 8, 256, 4, 3),
    Tiling(4, 32, 64, 4, 3),
)
