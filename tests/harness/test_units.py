"""Numbers, times, sizes, factors and intervals as tables print them."""

from __future__ import annotations

import pytest

from suites.harness.present import units
from suites.harness.record.schema import Speed


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.5, "0.5"), (2.764, "2.76"), (9.996, "10.0"), (39.0, "39.0"), (99.96, "100"), (1120.4, "1,120")],
)
def test_numbers_have_three_digits(value, text):
    assert units.digits(value) == text


def test_times_sizes_and_factors_have_their_unit():
    assert [units.seconds(value) for value in (None, 2.5, 4.15e-3, 4e-6, 3e-10)] == [
        "-", "2.50 s", "4.15 ms", "4.00 us", "0.3 ns"
    ]  # fmt: skip
    assert [units.size(value) for value in (None, 12, 1536, 3 << 20)] == ["-", "12 B", "1.50 KiB", "3.00 MiB"]
    assert [units.times(value) for value in (0.00002, 0.00037, 1.084, 12.34, 123.4)] == [
        "<0.0001x",
        "0.0004x",
        "1.08x",
        "12.3x",
        "123x",
    ]


def test_a_speed_has_its_interval():
    assert units.factor(Speed(2.0, 1.25, 2.5)) == "2.00x [1.25, 2.50]"


def test_an_interval_that_says_next_to_nothing_is_not_spelled_out():
    assert units.interval(Speed(692.0, 0.5, 961023.0)) == "[0.50, >1000]"
    assert units.interval(Speed(0.1, 1e-6, 3.0)) == "[<0.001, 3.00]"
    assert units.interval(Speed(400.0, 300.0, 500.0)) == "[300, 500]"
    assert units.interval(Speed(3188.0, 1129.0, 9004.0)) == "[1129, 9004]"  # it says how large the factor is
    assert units.interval(Speed(0.0003, 0.0001, 0.0009)) == "[0.0001, 0.0009]"
