"""From timed rounds to a speed with an interval and a verdict. Pure functions over numbers: no clock, no files.

Method. Within one process generation, the log-speed of two backends is paired round by round (they ran next to each
other in time, so slow drift cancels) and its median is taken. What repeats when processes are started anew is the unit
of inference: the 95% interval is Student's t over the per-generation medians (Student, "The probable error of a mean",
1908). Rounds of one process share its memory layout and are no independent repetitions (Mytkowicz et al., "Producing
wrong data without doing anything obviously wrong", 2009; Kalibera & Jones, "Rigorous benchmarking in reasonable time",
2013). Two or three medians say next to nothing about their own spread, so then the variance between processes comes
from A/A pairs (the same backend under two names) seen on this machine; before there are any, from a stated prior.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from suites.harness.record.schema import Latency, Speed, Verdict

CONFIDENCE = 0.95
POWER = 0.9
"""Probability with which a difference of the size of the minimum detectable effect is found."""
PRIOR_SD = 0.02
"""Standard deviation between processes of a log-speed that is assumed before a machine has A/A history: 2%."""
PRIOR_DEGREES = 4
"""Weight of the prior, in observations. Real A/A pairs soon outweigh it."""
ENOUGH_GENERATIONS = 4
"""From this many generations on, their own spread is used and no history."""

Rounds = Sequence[Sequence[float]]
"""Per round, the timed samples (seconds a call)."""


@dataclass(frozen=True)
class Spread:
    """Variance of a log-speed between generations, and how many observations know it.

    Attributes:
        variance: of one generation's median.
        degrees: degrees of freedom.
        observations: A/A medians in it; 0 where it is the prior alone.
    """

    variance: float
    degrees: float
    observations: int


def log_speeds(backend: Rounds, baseline: Rounds) -> list[float]:
    """Per round, log(median of the baseline's samples / median of the backend's). Unpaired rounds are left out."""
    return [
        math.log(statistics.median(theirs) / statistics.median(mine))
        for mine, theirs in zip(backend, baseline, strict=False)
        if mine and theirs
    ]


def median_error(values: Sequence[float]) -> float:
    """Standard error of the median of `values`: 1.2533 sigma / sqrt(n), with sigma from the median absolute deviation.

    1.2533 = sqrt(pi/2) is the normal-theory factor; 1.4826 turns the deviation into a standard deviation. Fewer than
    two values have none: 0.
    """
    if len(values) < 2:
        return 0.0
    centre = statistics.median(values)
    deviation = statistics.median([abs(value - centre) for value in values])
    return math.sqrt(math.pi / 2) * 1.4826 * deviation / math.sqrt(len(values))


def mean_error(values: Sequence[float]) -> float:
    """The standard error of the mean of two or more values."""
    return statistics.stdev(values) / math.sqrt(len(values))


def within_process(logs: Sequence[float]) -> Speed:
    """Speed and interval from log-speeds of pairs within one process, by the median; nothing is said of others.

    Raises:
        statistics.StatisticsError: no pair.
    """
    centre, margin = statistics.median(logs), median_error(logs) * quantile(max(1, len(logs) - 1))
    return Speed(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def spread_of(history: Sequence[float]) -> Spread:
    """Variance between generations from A/A medians (true mean 0), with the prior as `PRIOR_DEGREES` observations.

    This is the scaled-inverse-chi-squared posterior of a variance with known mean (Gelman et al., "Bayesian Data
    Analysis", section 2.6), whose predictive distribution is Student's t with the degrees of freedom given here.
    """
    degrees = PRIOR_DEGREES + len(history)
    total = PRIOR_DEGREES * PRIOR_SD**2 + sum(value * value for value in history)
    return Spread(total / degrees, degrees, len(history))


class Estimate(NamedTuple):
    """A log-speed, the standard error of it, and the degrees of freedom that this error is known with."""

    centre: float
    error: float
    degrees: float


def estimate(generations: Sequence[Sequence[float]], history: Spread) -> Estimate:
    """What a comparison says, from per-generation lists of log-speeds.

    Args:
        generations: log-speeds of the rounds, one list a generation; at least one, none empty.
        history: what is known of the variance between processes; used below `ENOUGH_GENERATIONS` generations, and then
            no smaller than what this comparison shows itself (between its medians, and within its rounds).

    Raises:
        ValueError: no generation, or an empty one.
    """
    if not generations or not all(generations):
        raise ValueError("expected at least one generation, and rounds in each")
    medians = [statistics.median(values) for values in generations]
    centre, count = statistics.fmean(medians), len(medians)
    own = statistics.variance(medians) if count > 1 else 0.0
    if count >= ENOUGH_GENERATIONS:
        variance, degrees = own, float(count - 1)
    else:
        within = statistics.fmean([median_error(values) ** 2 for values in generations])
        variance, degrees = max(history.variance, own, within), history.degrees
    return Estimate(centre, math.sqrt(variance / count), degrees)


def speed(generations: Sequence[Sequence[float]], history: Spread) -> Speed:
    """Speed and interval; arguments and errors as of `estimate`."""
    return interval(estimate(generations, history))


def interval(found: Estimate, confidence: float = CONFIDENCE) -> Speed:
    """An estimate as a speed with its interval, by default of 95%."""
    half = quantile(found.degrees, confidence) * found.error
    return Speed(math.exp(found.centre), math.exp(found.centre - half), math.exp(found.centre + half))


def detectable(found: Estimate, floor: float = 0.0) -> float:
    """The smallest true difference, as a log-speed, that such a comparison claims with probability `POWER`.

    The interval must exclude 1 and the estimate exceed the floor, so the true value has to lie beyond the larger of the
    two by the quantile of the estimate's own distribution (Bloom, "Minimum detectable effects", 1995).
    """
    beyond = quantile(found.degrees, 2 * POWER - 1) * found.error
    return max(quantile(found.degrees) * found.error, floor) + beyond


def p_value(found: Estimate) -> float:
    """Probability of an estimate at least as far from 0 where there is no difference."""
    if not found.error:
        return 1.0 if found.centre == 0 else 0.0
    from scipy.special import stdtr  # here, so that the command line starts without it

    return float(2 * stdtr(found.degrees, -abs(found.centre) / found.error))


def holm(p_values: Sequence[float]) -> list[float]:
    """`p_values` of comparisons made at once, raised so that one below 5% is false in at most 5% of such *families*.

    Holm, "A simple sequentially rejective multiple test procedure", 1979: the k-th smallest of n counts n - k + 1
    times, and no less than the smaller ones. It needs no independence, which switches of one program do not have.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(order), 0.0
    for rank, position in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p_values[position]))
        adjusted[position] = least
    return adjusted


def interaction(neither: Rounds, first: Rounds, second: Rounds, both: Rounds) -> list[float]:
    """Per round log t(first) + log t(second) - log t(neither) - log t(both), of two switches.

    0: each saves the same factor with the other one as without it. Above 0 they help each other; below 0 they are
    redundant, saving less together than one after the other. Rounds that one of the four lacks are left out.
    """
    return [
        math.log(one) + math.log(other) - math.log(none) - math.log(all_)
        for none, one, other, all_ in (
            map(statistics.median, rounds) for rounds in zip(neither, first, second, both, strict=False) if all(rounds)
        )
    ]


def floor_of(pair: Speed) -> float:
    """The A/A floor: the largest relative difference inside of the interval of two copies of one backend."""
    return max(abs(math.log(pair.low)), abs(math.log(pair.high)))


def verdict(found: Speed, same_within: float, floor: float = 0.0) -> Verdict:
    """What may be said.

    Args:
        found: the speed.
        same_within: 0.02: an interval wholly within 2% either way reads `same`.
        floor: of the A/A pair, as a log-speed: smaller differences are `unclear`.
    """
    margin = math.log1p(same_within)
    if floor <= margin and math.log(found.low) >= -margin and math.log(found.high) <= margin:
        return "same"
    if abs(math.log(found.value)) <= floor:
        return "unclear"
    if found.low > 1:
        return "faster"
    return "slower" if found.high < 1 else "unclear"


def latency(generations: Sequence[Rounds]) -> Latency:
    """Over all samples. Percentiles interpolate linearly (type 7)."""
    samples = sorted(value for rounds in generations for samples in rounds for value in samples)
    if not samples:
        raise ValueError("expected at least one sample")
    p50, p90, p99 = (percentile(samples, share / 100) for share in (50, 90, 99))
    return Latency(p50=p50, p90=p90, p99=p99, min=samples[0], n=len(samples))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted `ordered` lie, interpolated."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t."""
    from scipy.special import stdtrit  # here, so that the command line starts without it

    return float(stdtrit(degrees, (1 + confidence) / 2))
