"""Which interpolation points give Winograd's F(4x4, 3x3) the smallest error? Prints one table.

    python -m tools.winograd_points

Six points make F(4, 3): 0, infinity, and two pairs +-a, +-b, whose symmetry halves the work of the transforms. The
error is that of a whole convolution in float32, rectified normal images and normal weights, against float64, relative
to the root mean square of the results; beside it, that of the direct sum.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from suites.cli.scripts import make_parser

CHANNELS, TILES, OUTPUTS = 64, 400, 8
PAIRS = [
    (1, 2),
    (0.5, 1),
    (0.5, 2),
    (0.5, 1.5),
    (0.625, 1.5),
    (0.75, 1.5),
    (0.75, 1.25),
    (0.65, 1.4),
    (0.5**0.5, 2**0.5),
]


def matrices(a: float, b: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B^T, G and A^T of F(4, 3) at 0, +-a, +-b and infinity."""
    points = np.array([0, a, -a, b, -b])
    below = np.zeros((6, 6))  # row i: the polynomial that vanishes at all points but the i-th; the last: at all
    for row in range(5):
        below[row, :5] = np.poly(np.delete(points, row))[::-1]
    below[5] = np.poly(points)[::-1]
    scales = np.array([np.prod(point - np.delete(points, row)) for row, point in enumerate(points)])
    weight = np.vstack([points[:, None] ** np.arange(3) / scales[:, None], [0, 0, 1]])
    result = np.vstack([points[:, None] ** np.arange(4), [0, 0, 0, 1]]).T
    return below, weight, result


def along(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`matrix` applied to both leading axes of x in x's precision, term by term as a kernel does."""
    for axis in (0, 1):
        rows = np.moveaxis(x, axis, 0)
        terms = (sum(x.dtype.type(m) * row for m, row in zip(line, rows, strict=True) if m) for line in matrix)
        x = np.moveaxis(np.stack(list(terms)), 0, axis)
    return x


def direct(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[4, 4, tiles, outputs] of x [6, 6, tiles, channels] and weight [3, 3, channels, outputs], one sum a result."""
    y = np.zeros((4, 4, TILES, OUTPUTS), x.dtype)
    for i, j, c in np.ndindex(3, 3, CHANNELS):
        y += x[i : i + 4, j : j + 4, :, c, None] * weight[i, j, c]
    return y


def winograd(x: np.ndarray, weight: np.ndarray, a: float, b: float) -> np.ndarray:
    """The same through the transforms; the weight's are made in double, as at load."""
    below, taps, result = matrices(a, b)
    points, transformed = along(taps, weight.astype(np.float64)).astype(np.float32), along(below, x)
    sums = np.zeros((6, 6, TILES, OUTPUTS), np.float32)
    for c in range(CHANNELS):
        sums += transformed[..., c, None] * points[:, :, None, c]
    return along(result, sums)


def main() -> None:
    """Print the table."""
    make_parser(__doc__).parse_args()
    random = np.random.default_rng(0)
    x = np.maximum(random.standard_normal((6, 6, TILES, CHANNELS)), 0).astype(np.float32)
    weight = random.standard_normal((3, 3, CHANNELS, OUTPUTS)).astype(np.float32)
    right = direct(x.astype(np.float64), weight.astype(np.float64))
    size = np.sqrt(np.mean(right**2))
    found = Table("points", "rms error", "largest error", title=f"F(4x4, 3x3), {CHANNELS} channels, relative error")
    results = {f"0, +-{a:.4g}, +-{b:.4g}, infinity": winograd(x, weight, a, b) for a, b in PAIRS}
    for name, y in {"direct sum": direct(x, weight), **results}.items():
        error = (y - right) / size
        found.add_row(name, f"{np.sqrt(np.mean(error**2)):.2e}", f"{np.abs(error).max():.2e}")
    Console(width=100).print(found)


if __name__ == "__main__":
    main()
