"""Reports of programs that consist of several parts."""

from __future__ import annotations

import pytest

from engine.runtime.report import _sum_passes
from engine.targets.cpu import native


def test_entries_that_only_some_parts_have_keep_their_place():
    common = [("fold_constants", 2), ("dead_code", 1), ("fuse_gelu", 0), ("dead_code", 3)]
    quantised = [("weights=decoded", 1), *common, ("weights=quantised", 4)]
    summed = (("fold_constants", 4), ("dead_code", 2), ("fuse_gelu", 0), ("dead_code", 6), ("weights=quantised", 4))
    assert _sum_passes([common, quantised]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([quantised, common]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([[], common]) == tuple(common)


@pytest.mark.parametrize(
    ("rates", "expected", "calls"),
    [
        ([38e9, 37e9, 38.5e9], 38.5e9, 3),
        ([1.8e9, 38e9, 2e9, 37e9], 38e9, 4),
        ([1.8e9, 1.2e9, 10e9, 38e9, 37.5e9], 38e9, 5),
        ([float(2**power) for power in range(20)], 512.0, 10),
    ],
)
def test_a_roof_is_the_best_of_several_measurements_that_agree(rates, expected, calls):
    left = list(rates)
    assert native.measure_undisturbed(lambda: left.pop(0)) == expected
    assert len(rates) - len(left) == calls


def test_the_time_of_a_roof_is_bounded(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(native.time, "perf_counter", lambda: now[0])
    done = []

    def measure():
        now[0] += 0.2
        done.append(2.0 ** len(done))
        return done[-1]

    assert native.measure_undisturbed(measure) == 4.0
    assert len(done) == 3


def test_the_roofs_of_a_profile_are_repeated(monkeypatch):
    rates = iter([1.8e9, 38e9, 37e9, 1.5e9])

    class Library:
        @staticmethod
        def eb_measure_read(*_arguments):
            return next(rates)

    monkeypatch.setattr(native, "lib", Library)
    monkeypatch.setattr(native, "_READ_BYTES", 4096)
    assert native.read_bandwidth() == 38e9
