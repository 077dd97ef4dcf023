"""How cost grows with a size: a power law through the rows of a sweep. Pure: reads summary lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import linregress

from suites.harness.judge import stats
from suites.harness.record.schema import Summary

LEAST_SIZES = 3
"""A line through two points fits always."""


@dataclass(frozen=True)
class Growth:
    """Latency as a power of one size, all else alike: log t = exponent * log size + constant, by least squares.

    Attributes:
        backend, model, about: of what; `about` names the sizes and options that stay.
        axis: the size that is swept.
        sizes: its values.
        exponent, low, high: with its 95% interval, Student's t over the points' distance from the line. 1: twice the
            size, twice the time; below, larger calls are cheaper a piece.
    """

    backend: str
    model: str
    about: str
    axis: str
    sizes: tuple[int, ...]
    exponent: float
    low: float
    high: float


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
            kept = [line.model, line.backend, line.threads, line.options, fixed]
            of.setdefault(axis, {}).setdefault(json.dumps(kept, sort_keys=True), []).append(line)
    for axis, groups in of.items():
        for group in groups.values():
            if len({line.shape[axis] for line in group}) >= LEAST_SIZES:
                yield axis, sorted(group, key=lambda line: int(line.shape[axis]))


def _fit(axis: str, lines: Sequence[Summary]) -> Growth | None:
    sizes = [line.shape[axis] for line in lines]
    if min(sizes) < 1:
        return None
    line = linregress([math.log(size) for size in sizes], [math.log(one.latency.p50) for one in lines if one.latency])
    half = stats.quantile(len(sizes) - 2) * line.stderr
    first = lines[0]
    kept = {key: size for key, size in first.shape.items() if key != axis} | first.options
    about = ", ".join([*(f"{key}={value}" for key, value in kept.items()), f"threads={first.threads}"])
    exponent = float(line.slope)
    return Growth(first.backend, first.model, about, axis, tuple(sizes), exponent, exponent - half, exponent + half)


def rows(found: Sequence[Growth]) -> list[dict[str, str]]:
    """For a table: a sweep a row, a backend a column."""
    of: dict[tuple[str, str, str, tuple[int, ...]], dict[str, str]] = {}
    for one in found:
        text = f"{one.exponent:.2f} [{one.low:.2f}, {one.high:.2f}]"
        of.setdefault((one.model, one.about, one.axis, one.sizes), {})[one.backend] = text
    labels = dict.fromkeys(one.backend for one in found)
    return [
        {
            "latency grows as": f"{model} {axis}^",
            "over": f"{axis} {min(sizes)} to {max(sizes)}; {about}",
            **{label: cells.get(label, "") for label in labels},
        }
        for (model, about, axis, sizes), cells in of.items()
    ]
