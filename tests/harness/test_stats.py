"""The statistics against SciPy, by hand, and against a simulator of a noisy machine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from suites.harness.judge import stats
from tests import messages
from tests.forms import shorten
from tools import simulated_noise


def simulated(generator, generations, true=0.0, noise=simulated_noise.Noise()):  # noqa: B008  # immutable
    """Per-generation log-speeds on a machine with 1% noise, 2% between processes, and bursts of a neighbour."""
    return [
        stats.log_speeds(*simulated_noise.generation(generator, noise, rounds=10, samples=3, true=true))
        for _ in range(generations)
    ]


def histories(generator, count=800, each=40):
    """What machines of this kind know from A/A pairs: endlessly many, of `each` medians."""
    medians = np.array([float(np.median(simulated(generator, 1)[0])) for _ in range(count)])
    while True:
        yield stats.spread_of(generator.choice(medians, each).tolist())


def test_the_quantile_is_students():
    for degrees in (1, 2, 5, 30.5):
        assert stats.quantile(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees))


def test_log_speeds_pair_the_medians_of_rounds():
    found = stats.log_speeds([[1.0, 1.0, 7.0], [2.0]], [[2.0, 9.0, 2.0], [4.0]])
    assert found == pytest.approx([math.log(2), math.log(2)])


def test_a_round_that_one_side_lacks_is_left_out():
    assert len(stats.log_speeds([[1.0], [1.0]], [[1.0]])) == 1


def test_with_many_generations_the_interval_is_students_over_medians():
    medians = [0.01, 0.03, 0.02, 0.05, 0.04]
    found = stats.speed([[m - 0.5, m, m + 0.5] for m in medians], stats.spread_of([]))
    low, high = scipy_stats.t.interval(0.95, 4, loc=np.mean(medians), scale=scipy_stats.sem(medians))
    assert (found.low, found.value, found.high) == pytest.approx(tuple(np.exp([low, np.mean(medians), high])))


def test_with_two_generations_the_spread_comes_from_history():
    history = stats.spread_of([0.01, -0.01] * 500)
    found = stats.speed([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], history)
    half = scipy_stats.t.ppf(0.975, history.degrees) * 0.01 / math.sqrt(2)
    assert math.log(found.high) - 0.1 == pytest.approx(half, rel=0.01)


def test_without_history_the_prior_is_two_percent():
    spread = stats.spread_of([])
    assert math.sqrt(spread.variance) == pytest.approx(stats.PRIOR_SD)
    assert spread.observations == 0


def test_two_generations_far_apart_widen_the_interval_beyond_history():
    calm = stats.spread_of([0.001] * 100)
    near = stats.speed([[0.0] * 5, [0.0] * 5], calm)
    far = stats.speed([[0.0] * 5, [0.2] * 5], calm)
    assert far.high / far.low > (near.high / near.low) ** 5


def test_the_standard_error_of_a_median_is_that_of_repeated_medians():
    generator = np.random.default_rng(1)
    draws = generator.normal(0, 1, (2000, 25))
    told = np.sqrt(np.mean([stats.median_error(row.tolist()) ** 2 for row in draws]))
    assert told == pytest.approx(np.median(draws, axis=1).std(), rel=0.15)


def test_no_generation_or_an_empty_one_is_refused():
    for wrong in ([], [[]], [[0.1], []]):
        with messages.raises(ValueError):
            stats.speed(wrong, stats.spread_of([]))


@pytest.mark.parametrize(
    ("low", "value", "high", "floor", "expected"),
    [
        (1.05, 1.10, 1.15, 0.0, "faster"),
        (0.80, 0.90, 0.95, 0.0, "slower"),
        (0.95, 1.03, 1.12, 0.0, "unclear"),
        (0.99, 1.00, 1.01, 0.0, "same"),
        (0.985, 0.990, 0.995, 0.0, "same"),
        (0.85, 0.90, 0.95, 0.2, "unclear"),
        (0.99, 1.00, 1.01, 0.2, "unclear"),
    ],
)
def test_the_verdict_follows_interval_margin_and_floor(low, value, high, floor, expected):
    assert stats.verdict(stats.Speed(value, low, high), same_within=0.02, floor=floor) == expected


@pytest.mark.parametrize("generations", shorten([2, 3, 4, 5, 7, 10], 2, 5))
def test_identical_code_is_called_different_at_most_once_in_twenty(generations):
    """Counted: an interval that excludes 1, whatever the verdict says of margins. A shift moves interval and truth
    alike, so these are also the intervals that miss the truth.
    """
    generator = np.random.default_rng(generations)
    trials, claims = 600, 0
    for _, history in zip(range(trials), histories(generator), strict=False):
        found = stats.speed(simulated(generator, generations), history)
        claims += not found.low <= 1 <= found.high
    # 600 trials at a true 5%: above 44 claims (7.3%) comes once in 200 such tests
    assert claims <= 44, f"{claims / trials:.1%}"


def test_a_true_three_percent_is_found_at_ten_generations():
    generator = np.random.default_rng(5)
    found = [stats.speed(simulated(generator, 10, math.log(1.03)), stats.spread_of([])) for _ in range(300)]
    assert np.mean([one.low > 1 for one in found]) >= 0.9
    assert np.mean([one.low <= 1.03 <= one.high for one in found]) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300)


@pytest.mark.parametrize("generations", shorten([5, 10], 5))
def test_the_minimum_detectable_effect_is_found_nine_times_in_ten(generations):
    """The effect that long knowledge of the machine gives is put in; the verdicts of single comparisons are counted."""
    generator = np.random.default_rng(generations)
    error = simulated_noise.Noise().process / math.sqrt(generations)
    effect = stats.detectable(stats.Estimate(0.0, error, generations - 1))
    found = [stats.speed(simulated(generator, generations, effect), stats.spread_of([])) for _ in range(300)]
    share = np.mean([one.low > 1 for one in found])
    assert share == pytest.approx(stats.POWER, abs=0.08)  # 3.6 Monte Carlo errors, and bursts add to the noise


def test_below_the_floor_nothing_is_detectable():
    estimate = stats.Estimate(0.0, 0.001, 9)
    assert stats.detectable(estimate, floor=0.05) == pytest.approx(0.05 + stats.quantile(9, 0.8) * 0.001)


def test_the_p_value_is_that_of_students_test():
    medians = [0.01, 0.03, -0.02, 0.05, 0.04]
    found = stats.estimate([[m] for m in medians], stats.spread_of([]))
    assert stats.p_value(found) == pytest.approx(scipy_stats.ttest_1samp(medians, 0).pvalue)
    assert stats.p_value(stats.Estimate(0.0, 0.0, 3)) == 1
    assert stats.p_value(stats.Estimate(0.1, 0.0, 3)) == 0


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]) == []


@pytest.mark.long
def test_holm_calls_one_of_ten_equal_switches_different_in_one_family_of_twenty():
    generator = np.random.default_rng(9)
    families = 200
    claims = 0
    for _ in range(families):
        found = [stats.estimate(simulated(generator, 5), stats.spread_of([])) for _ in range(10)]
        claims += min(stats.holm([stats.p_value(one) for one in found])) < 0.05
    assert claims <= 20  # 200 families at a true 5%: above 20 comes less than once in 500 such tests


@pytest.mark.parametrize(
    ("second", "both", "expected"),
    [(0.5, 0.25, 0.0), (0.5, 0.5, -math.log(2)), (1.0, 0.25, math.log(2))],
    ids=["independent", "redundant", "helpful"],
)
def test_what_two_switches_have_to_do_with_each_other(second, both, expected):
    def rounds(factor):
        return [[factor * 3.0, factor * 5.0], [factor * 4.0], [factor * 9.0]]

    found = stats.interaction(rounds(1.0), rounds(0.5), rounds(second), rounds(both))
    assert found == pytest.approx([expected] * 3)
    assert len(stats.interaction([[1.0], []], [[1.0], [1.0]], [[1.0], [1.0]], [[1.0], [1.0]])) == 1


def test_percentiles_are_numpys():
    samples = [3.0, 1.0, 2.0, 10.0, 5.0]
    found = stats.latency([[[3.0, 1.0], [2.0]], [[10.0, 5.0]]])
    for share in (50, 90, 99):
        assert getattr(found, f"p{share}") == pytest.approx(np.percentile(samples, share))
    assert (found.min, found.n) == (1.0, 5)


def test_the_floor_is_the_far_end_of_the_pair():
    assert stats.floor_of(stats.Speed(1.01, 0.96, 1.06)) == pytest.approx(-math.log(0.96), rel=0.5)
    assert stats.floor_of(stats.Speed(1.0, 0.9, 1.02)) == pytest.approx(-math.log(0.9))


def test_the_interval_within_one_process_holds_the_true_speed():
    generator = np.random.default_rng(0)
    found = [stats.within_process(list(generator.normal(math.log(0.8), 0.05, 25))) for _ in range(200)]
    held = sum(one.low <= 0.8 <= one.high for one in found)
    assert 180 <= held <= 200  # of 200 intervals at 95%; fewer than 180 comes once in a thousand such tests
    assert all(one.low < one.value < one.high for one in found)
