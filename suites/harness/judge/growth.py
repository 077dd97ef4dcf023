"""How cost grows with a size: a power law through the rows of a sweep. Pure: reads summary lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suites.harness.judge import stats
from suites.harness.record.schema import Summary

LEAST_SIZES = 3
"""A line through two points fits always."""
ENOUGH_SIZES = 4
"""With fewer sizes the exponent is not told: its interval rests on a single degree of freedom."""
WIDEST_TOLD = 1.0
"""An interval of the exponent that is wider tells no constant time from a proportional one."""


@dataclass(frozen=True)
class Growth:
    """Latency as a power of one size, all else equal: log t = exponent * log size + constant, by least squares.

    Attributes:
        row: the row of the smallest size; names the backend and everything that the rows have in common.
        axis: the size that is swept.
        sizes: its values, ascending.
        exponent, low, high: with its 95% interval, Student's t over the points' distance from the line. 1: twice the
            size takes twice the time; below 1, a larger call costs less per element.
    """

    row: Summary
    axis: str
    sizes: tuple[int, ...]
    exponent: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """True if the sizes suffice to tell the exponent."""
        return len(self.sizes) >= ENOUGH_SIZES and bool(self.high - self.low <= WIDEST_TOLD)


def fitted(summaries: Sequence[Summary]) -> list[Growth]:
    """Every sweep of one size with three values or more, a backend at a time."""
    return [found for sweep in _sweeps(summaries) for found in [_fit(*sweep)] if found is not None]


def _sweeps(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[Summary]]]:
    of: dict[str, dict[str, list[Summary]]] = {}
    for line in summaries:
        if line.latency is None or line.backend == f"{line.baseline}#2":
            continue
        for axis in line.shape:
            fixed = {key: size for key, size in line.shape.items() if key != axis}
            place = [line.threads, line.precision, line.device, line.io]
            kept = [line.model, line.backend, line.options, fixed, place]
            of.setdefault(axis, {}).setdefault(json.dumps(kept, sort_keys=True), []).append(line)
    for axis, groups in of.items():
        for group in groups.values():
            if len({line.shape[axis] for line in group}) >= LEAST_SIZES:
                yield axis, sorted(group, key=lambda line: int(line.shape[axis]))


def _fit(axis: str, lines: Sequence[Summary]) -> Growth | None:
    sizes = [line.shape[axis] for line in lines]
    if min(sizes) < 1:
        return None
    from scipy.stats import linregress  # here, because it takes longer to import than the rest of the command line

    line = linregress([math.log(size) for size in sizes], [math.log(one.latency.p50) for one in lines if one.latency])
    half = stats.quantile(len(sizes) - 2) * line.stderr
    exponent = float(line.slope)
    return Growth(lines[0], axis, tuple(sizes), exponent, exponent - half, exponent + half)
