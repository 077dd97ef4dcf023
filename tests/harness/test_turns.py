"""How many samples a turn has: what the suite says, fewer where a backend is slow, one at least."""

from __future__ import annotations

import pytest

from suites.harness.run import casework


@pytest.mark.parametrize(
    ("sample_s", "count"),
    [([0.001], 3), ([0.001, 0.09], 3), ([0.001, 0.14], 2), ([0.16, 0.001], 1), ([4.0], 1), ([], 3), ([0.0], 3)],
)
def test_the_slowest_backend_decides_how_many_samples_fit(sample_s, count):
    assert casework._count_samples(3, sample_s) == count


def test_a_suite_that_wants_one_sample_gets_one():
    assert casework._count_samples(1, [0.001]) == 1
