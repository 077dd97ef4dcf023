"""Estimates with a standard error and an interval. Knows no model and no backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
"""Bootstrap samples. The standard error of each end of an interval is then about 1.5% of its width."""
CONFIDENCE = 0.95
SEED = 20260101
"""Intervals are the same in every run."""


@dataclass(frozen=True)
class Estimate:
    """A number that was computed from a sample.

    Attributes:
        value: of the whole sample.
        error: standard error; None if it is not known.
        low, high: the 95% interval, by the bootstrap; None if the sample has one item, or if the statistic is undefined
            in most bootstrap samples.
    """

    value: float
    error: float | None = None
    low: float | None = None
    high: float | None = None


def estimate(count: int, statistic: Callable[[np.ndarray], float | np.ndarray]) -> Estimate:
    """The estimate of a statistic of `count` items.

    Args:
        count: number of items.
        statistic: indices of items [..., count] -> its value for each sample [...].
    """
    value = float(statistic(np.arange(count)))
    if count < 2:
        return Estimate(value)
    samples = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    # In blocks, because a sample of 10,000 pictures has 2,000 x 10,000 indices.
    drawn = np.concatenate([np.atleast_1d(statistic(block)) for block in np.array_split(samples, 20)])
    drawn = drawn[np.isfinite(drawn)]  # a statistic may be undefined for a sample that has one item many times
    if len(drawn) < RESAMPLES / 2:
        return Estimate(value)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, float(drawn.std(ddof=1)), float(low), float(high))


def mean(items: np.ndarray) -> Estimate:
    """The mean of `items` [N]."""
    return estimate(len(items), lambda chosen: items[chosen].mean(-1))
