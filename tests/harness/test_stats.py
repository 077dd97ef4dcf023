"""The statistics against SciPy, by hand, and against a simulator of a noisy machine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from suites.harness import stats


def simulate(generator, generations, rounds=15, between=0.01, within=0.02, shift=0.0):
    """Rounds of two backends: processes differ by `between`, rounds by `within`, one in twenty is hit by others."""
    found = []
    for _ in range(generations):
        offset = shift + generator.normal(0, between)
        times = []
        for mean in (offset, 0.0):
            noise = generator.normal(0, within, (rounds, 3)) + generator.exponential(within / 2, (rounds, 3))
            noise += np.where(generator.random((rounds, 1)) < 0.05, generator.exponential(0.5, (rounds, 1)), 0.0)
            times.append(np.exp(mean + noise) * 1e-3)
        found.append(stats.log_ratios(times[0].tolist(), times[1].tolist()))
    return found


def test_the_quantile_is_students():
    for degrees in (1, 2, 5, 30.5):
        assert stats.quantile(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees))


def test_log_ratios_pair_the_medians_of_rounds():
    found = stats.log_ratios([[2.0, 9.0, 2.0], [4.0]], [[1.0, 1.0, 7.0], [2.0]])
    assert found == pytest.approx([math.log(2), math.log(2)])


def test_a_round_that_one_side_lacks_is_left_out():
    assert len(stats.log_ratios([[1.0], [1.0]], [[1.0]])) == 1


def test_with_many_generations_the_interval_is_students_over_medians():
    medians = [0.01, 0.03, 0.02, 0.05, 0.04]
    found = stats.ratio([[m - 0.5, m, m + 0.5] for m in medians], stats.spread_of([]))
    low, high = scipy_stats.t.interval(0.95, 4, loc=np.mean(medians), scale=scipy_stats.sem(medians))
    assert (found.low, found.value, found.high) == pytest.approx(tuple(np.exp([low, np.mean(medians), high])))


def test_with_two_generations_the_spread_comes_from_history():
    history = stats.spread_of([0.01, -0.01] * 500)
    found = stats.ratio([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], history)
    half = scipy_stats.t.ppf(0.975, history.degrees) * 0.01 / math.sqrt(2)
    assert math.log(found.high) - 0.1 == pytest.approx(half, rel=0.01)


def test_without_history_the_prior_is_two_percent():
    spread = stats.spread_of([])
    assert math.sqrt(spread.variance) == pytest.approx(stats.PRIOR_SD)
    assert spread.observations == 0


def test_two_generations_far_apart_widen_the_interval_beyond_history():
    calm = stats.spread_of([0.001] * 100)
    near = stats.ratio([[0.0] * 5, [0.0] * 5], calm)
    far = stats.ratio([[0.0] * 5, [0.2] * 5], calm)
    assert far.high / far.low > (near.high / near.low) ** 5


def test_the_standard_error_of_a_median_is_that_of_repeated_medians():
    generator = np.random.default_rng(1)
    draws = generator.normal(0, 1, (2000, 25))
    told = np.sqrt(np.mean([stats.median_error(row.tolist()) ** 2 for row in draws]))
    assert told == pytest.approx(np.median(draws, axis=1).std(), rel=0.15)


def test_a_paired_ratio_is_the_median_and_covers_the_true_one():
    assert stats.paired([math.log(2.0)] * 5).to_dict() == pytest.approx({"value": 2.0, "low": 2.0, "high": 2.0})
    generator = np.random.default_rng(2)
    found = [stats.paired(generator.normal(0.1, 0.05, 21).tolist()) for _ in range(1000)]
    assert np.mean([f.low <= math.exp(0.1) <= f.high for f in found]) == pytest.approx(0.95, abs=0.03)


def test_no_generation_or_an_empty_one_is_refused():
    for wrong in ([], [[]], [[0.1], []]):
        with pytest.raises(ValueError, match="at least one generation"):
            stats.ratio(wrong, stats.spread_of([]))


@pytest.mark.parametrize(
    ("low", "value", "high", "floor", "expected"),
    [
        (0.80, 0.90, 0.95, 0.0, "faster"),
        (1.05, 1.10, 1.15, 0.0, "slower"),
        (0.95, 1.03, 1.12, 0.0, "inconclusive"),
        (0.99, 1.00, 1.01, 0.0, "same"),
        (0.985, 0.990, 0.995, 0.0, "same"),
        (0.85, 0.90, 0.95, 0.2, "inconclusive"),
        (0.99, 1.00, 1.01, 0.2, "inconclusive"),
    ],
)
def test_the_verdict_follows_interval_margin_and_floor(low, value, high, floor, expected):
    assert stats.verdict(stats.Ratio(value, low, high), same_within=0.02, floor=floor) == expected


@pytest.mark.parametrize("generations", [2, 3, 4, 10])
def test_identical_code_is_called_different_at_most_once_in_twenty(generations):
    """Counted: an interval that excludes 1, whatever the verdict says of margins."""
    generator = np.random.default_rng(generations)
    past = [float(np.median(simulate(generator, 1)[0])) for _ in range(60)]
    trials, claims = 600, 0
    for _ in range(trials):
        found = stats.ratio(simulate(generator, generations), stats.spread_of(past))
        claims += not found.low <= 1 <= found.high
    # 600 trials at a true 5%: above 44 claims (7.3%) comes once in 200 such tests
    assert claims <= 44, f"{claims / trials:.1%}"


@pytest.mark.parametrize("generations", [2, 5])
def test_a_five_percent_difference_lies_in_its_interval_and_is_found(generations):
    generator = np.random.default_rng(generations + 50)
    past = [float(np.median(simulate(generator, 1)[0])) for _ in range(60)]
    covered = seen = 0
    for _ in range(300):
        found = stats.ratio(simulate(generator, generations, shift=0.05), stats.spread_of(past))
        covered += found.low <= math.exp(0.05) <= found.high
        seen += stats.verdict(found, same_within=0.02) == "slower"
    assert covered >= 275  # 95% of 300 less three standard deviations
    assert seen >= 200


def test_percentiles_are_numpys():
    samples = [3.0, 1.0, 2.0, 10.0, 5.0]
    found = stats.latency([[[3.0, 1.0], [2.0]], [[10.0, 5.0]]])
    for share in (50, 90, 99):
        assert found[f"p{share}"] == pytest.approx(np.percentile(samples, share))
    assert (found["min"], found["n"]) == (1.0, 5)


def test_the_floor_is_the_far_end_of_the_pair():
    assert stats.floor_of(stats.Ratio(1.01, 0.96, 1.06)) == pytest.approx(-math.log(0.96), rel=0.5)
    assert stats.floor_of(stats.Ratio(1.0, 0.9, 1.02)) == pytest.approx(-math.log(0.9))
