"""Sweeps of a size: the power of it that latency grows with."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from suites.harness.judge import growth, stats
from suites.harness.present.growth import describe_growth
from suites.harness.present.report import print_report
from tests.harness import records


def line(backend, sequence, seconds, status="ok", batch=1, precision="fp32"):
    latency = stats.latency([[[seconds]]]) if status == "ok" else None
    shape = {"batch": batch, "sequence": sequence}
    fields = {"status": status, "shape": shape, "latency": latency, "precision": precision}
    return records.summary(backend=backend, model="minilm", **fields)


def test_the_power_of_a_sweep_is_found_and_its_interval_says_how_straight_it_is():
    lines = [line("engine", n, 3e-6 * n**1.5) for n in (8, 16, 32, 64)]
    lines += [line("eager", n, 1e-3 * n * jitter) for n, jitter in ((8, 1.1), (16, 0.9), (32, 1.1), (64, 0.9))]
    exact, rough = growth.fitted(lines)
    assert (exact.row.backend, exact.axis, exact.sizes) == ("engine", "sequence", (8, 16, 32, 64))
    assert exact.exponent == pytest.approx(1.5)
    assert exact.high - exact.low < 1e-6
    assert rough.low < 1 < rough.high


def test_rows_of_two_precisions_are_two_sweeps():
    lines = [line("engine", n, 1e-3 * n) for n in (8, 16, 32)]
    lines += [line("engine", n, 1e-3 * n**2, precision="bf16") for n in (8, 16, 32)]
    assert [(one.row.precision, one.exponent) for one in growth.fitted(lines)] == [
        ("fp32", pytest.approx(1)), ("bf16", pytest.approx(2)),
    ]  # fmt: skip


def test_two_sizes_failed_rows_and_the_second_copy_make_no_sweep():
    lines = [line("engine", n, 1e-3) for n in (8, 16)] + [line("engine", 32, 1e-3, status="failed")]
    lines += [line("eager#2", n, 1e-3) for n in (8, 16, 32)]
    assert growth.fitted(lines) == []


def test_each_size_is_swept_with_the_others_held():
    lines = [line("engine", 8, 1e-3 * b, batch=b) for b in (1, 2, 4)] + [line("engine", n, 1e-3 * n) for n in (16, 32)]
    assert [(one.axis, one.row.shape) for one in growth.fitted(lines)] == [
        ("batch", {"batch": 1, "sequence": 8}), ("sequence", {"batch": 1, "sequence": 8}),
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [40, 60, 80, 110, 160])
def test_the_block_of_a_sweep_fits_and_names_everything(columns):
    label = "onnxruntime[without=SkipLayerNormFusion]"
    lines = [line(name, n, 1e-6 * n**power) for name, power in (("engine", 1.5), (label, 0.5)) for n in (8, 16, 32)]
    stream = io.StringIO()
    print_report(Console(file=stream, width=columns, color_system=None), [*describe_growth(growth.fitted(lines))])
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= columns
    joined = " ".join(text.split())
    for part in ("sequence 8 to 32, batch 1, 1 thread, fp32", "[a] without=SkipLayerNormFusion"):
        assert part in joined
    assert "onnxruntime[a] 0.50 [0.50, 0.50]" in joined
    assert joined.index("onnxruntime[a]") < joined.index("engine 1.50 [1.50, 1.50]"), "the smallest exponent first"


def test_a_run_without_a_sweep_prints_nothing():
    assert list(describe_growth([])) == []
