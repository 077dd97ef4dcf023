"""Sweeps of a size: the power of it that latency grows with."""

from __future__ import annotations

import pytest

from suites.harness.judge import growth, stats
from tests.harness import records


def line(backend, sequence, seconds, status="ok", batch=1):
    latency = stats.latency([[[seconds]]]) if status == "ok" else None
    shape = {"batch": batch, "sequence": sequence}
    return records.summary(backend=backend, model="minilm", status=status, shape=shape, latency=latency)


def test_the_power_of_a_sweep_is_found_and_its_interval_says_how_straight_it_is():
    lines = [line("engine", n, 3e-6 * n**1.5) for n in (8, 16, 32, 64)]
    lines += [line("eager", n, 1e-3 * n * jitter) for n, jitter in ((8, 1.1), (16, 0.9), (32, 1.1), (64, 0.9))]
    exact, rough = growth.fitted(lines)
    assert (exact.backend, exact.axis, exact.sizes) == ("engine", "sequence", (8, 16, 32, 64))
    assert exact.exponent == pytest.approx(1.5)
    assert exact.high - exact.low < 1e-6
    assert rough.low < 1 < rough.high
    assert [row["engine"] for row in growth.rows([exact, rough])] == ["1.50 [1.50, 1.50]"]


def test_two_sizes_failed_rows_and_the_second_copy_make_no_sweep():
    lines = [line("engine", n, 1e-3) for n in (8, 16)] + [line("engine", 32, 1e-3, status="failed")]
    lines += [line("eager#2", n, 1e-3) for n in (8, 16, 32)]
    assert growth.fitted(lines) == []


def test_each_size_is_swept_with_the_others_held():
    lines = [line("engine", 8, 1e-3 * b, batch=b) for b in (1, 2, 4)] + [line("engine", n, 1e-3 * n) for n in (16, 32)]
    assert [(one.axis, one.about) for one in growth.fitted(lines)] == [
        ("batch", "sequence=8, threads=1"), ("sequence", "batch=1, threads=1"),
    ]  # fmt: skip
