"""Reports: of programs that consist of several parts, and what they say of slow kernels."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import engine
from engine.runtime.report import Counts, _sum_passes, build_report
from engine.targets.cpu import native


def test_entries_that_only_some_parts_have_keep_their_place():
    common = [("fold_constants", 2), ("dead_code", 1), ("fuse_gelu", 0), ("dead_code", 3)]
    quantised = [("weights=decoded", 1), *common, ("weights=quantised", 4)]
    summed = (("fold_constants", 4), ("dead_code", 2), ("fuse_gelu", 0), ("dead_code", 6), ("weights=quantised", 4))
    assert _sum_passes([common, quantised]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([quantised, common]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([[], common]) == tuple(common)


def test_a_profile_counts_one_launch_in_the_singular():
    x = torch.randn(2, 8)
    profile = engine.compile(nn.ReLU().eval(), (x,)).profile(x, runs=1, roofs=False)
    assert profile.launches == 1
    assert profile.describe()[0].startswith("1 launch, ")


class Copies(nn.Module):
    """Returns x transposed, which the binder has to copy. With `width`, the input of a linear layer is copied."""

    def __init__(self, width=None):
        super().__init__()
        self.linear = nn.Identity() if width is None else nn.Linear(300, width, bias=False)

    def forward(self, x):
        return self.linear(x.transpose(1, 2).contiguous())


@pytest.mark.parametrize(
    ("model", "bytes_", "copied"),
    [
        (nn.ReLU(), 2 * 960_000, 0),
        (Copies(), 0, 2 * 960_000),  # read and written
        (Copies(width=8), 960_000 + 4 * 300 * 8 + 4 * 2 * 400 * 8, 2 * 960_000),
    ],
)
def test_bytes_and_copied_bytes_are_together_what_the_launches_of_a_profile_move(model, bytes_, copied):
    x = torch.randn(2, 300, 400)  # 960,000 bytes
    program = engine.compile(model.eval(), (x,))
    report = program.report()
    assert (report.bytes, report.copied_bytes) == (bytes_, copied)
    assert sum(node.bytes for node in program.profile(x, runs=1, roofs=False).nodes) == bytes_ + copied
    assert [line.split() for line in str(report).splitlines() if line.startswith("copied")] == [
        ["copied_bytes", f"{copied:,}"]
    ]


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


class Products(nn.Module):
    def forward(self, x):
        return x.sinh().softmax(-1), x.tanh().sinh()


class Softmax(nn.Module):
    def forward(self, x):
        return x.softmax(0)


def test_a_report_names_the_operations_of_slow_kernels():
    program = engine.compile(Products().eval(), (torch.ones(4, 4, dtype=torch.float64),))
    report = program.report()
    assert report.slow_operations == (("sinh of float64", 2), ("softmax of float64", 1), ("tanh of float64", 1))
    share = "4 of 4 launches (100% of the FLOPs)"
    told = f"{share} use slow kernels: sinh of float64 x2, softmax of float64, tanh of float64."
    assert str(report).splitlines()[-1] == told


@pytest.mark.parametrize(
    ("some", "launches", "subject", "uses", "has"),
    [
        (1, 1, "the only launch", "uses", "has"),
        (1, 3, "1 of 3 launches", "uses", "has"),
        (3, 3, "3 of 3 launches", "use", "have"),
    ],
)
def test_a_report_counts_launches_as_a_sentence_does(some, launches, subject, uses, has):
    counts = Counts(launches=launches, slow_launches=some, emulated_launches=some, flops=4, slow_flops=1)
    assert counts.describe_slow_launches() == f"{subject} (25% of the FLOPs) {uses} slow kernels"
    assert counts.describe_emulated_launches().startswith(
        f"{subject} {has} products in bfloat16, for which this processor"
    )
    report = build_report([counts], name="x", sizes=(), export_seconds=None, compile_seconds=0.0,
                          config=engine.Config(target="interpreter"), digest="", run_digest="")  # fmt: skip
    beginning = subject[0].upper() + subject[1:]
    assert f"\n\n{beginning} {has} products" in str(report)
    assert f"\n\n{beginning} (25% of the FLOPs) {uses} slow" in str(report)


def test_a_profile_of_one_launch_of_a_slow_kernel_says_so_in_the_singular():
    x = torch.ones(4, 100, dtype=torch.float64)
    profile = engine.compile(Softmax().eval(), (x,)).profile(x, runs=1, roofs=False)
    assert profile.launches == 1
    assert str(profile).splitlines()[-1] == ("s: the only launch, 100.0% of the time, uses slow kernels.")


def test_a_report_names_the_first_few_operations_of_slow_kernels():
    many = tuple((f"op{number} of int64", 1) for number in range(8))
    part = Counts(launches=9, slow_launches=8, slow_operations=many)
    report = build_report([part], name="x", sizes=(), export_seconds=None, compile_seconds=0.0,
                          config=engine.Config(target="interpreter"), digest="", run_digest="")  # fmt: skip
    named = ", ".join(name for name, _ in many[:5])
    assert str(report).endswith(f"8 of 9 launches use slow kernels: {named}, 3 others.")


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("chosen", [None, "float32"])
def test_the_report_lists_the_same_switches_after_saving_and_loading(chosen, target, tmp_path):
    model, config = nn.Linear(4, 4).eval(), engine.Config(target=target)
    program = engine.compile(model, (torch.ones(2, 4),), dataclasses.replace(config, activations=chosen))
    program.save(tmp_path / "linear.engine")
    loaded = engine.load(tmp_path / "linear.engine", config=config)
    assert program.report().switches == loaded.report().switches
    (listed,) = {
        next(line for line in str(one.report()).splitlines() if line.startswith("switches"))
        for one in (program, loaded)
    }
    assert f"target={target}, threads=1, planner=default" in listed


def test_the_report_lists_a_type_of_activations_that_the_target_does_not_choose():
    config = engine.Config(activations="model")
    program = engine.compile(nn.Linear(4, 4).eval(), (torch.ones(2, 4),), config)
    assert program.report().switches["activations"] == "model"
    assert "activations=model" in str(program.report())


def test_the_report_of_a_loaded_program_lists_what_it_was_compiled_with(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)).eval()
    config = engine.Config(
        precision="int8_weight", recipe={"2": "bf16"}, activations="model", disable=("fuse_gelu", "dead_code")
    )
    program = engine.compile(model, (torch.ones(2, 4),), config)
    program.save(tmp_path / "p.engine")
    loaded = engine.load(tmp_path / "p.engine")
    assert loaded.report().switches == program.report().switches
    assert loaded.report().switches["precision"] == "int8_weight"
    assert loaded.report().switches["recipe"] == (("2", "bf16"),)
    assert loaded.report().switches["activations"] == "model"
    assert loaded.report().switches["disable"] == ("fuse_gelu", "dead_code")
    late = engine.load(tmp_path / "p.engine", config=engine.Config(disable=("channels_last",)))
    assert late.report().switches["disable"] == ("fuse_gelu", "dead_code", "channels_last")
    loaded.save(tmp_path / "again.engine")
    assert (tmp_path / "again.engine").read_bytes() == (tmp_path / "p.engine").read_bytes()
