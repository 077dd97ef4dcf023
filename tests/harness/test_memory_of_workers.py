"""Backends that memory cannot hold at once take turns in parts, also where no suite says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from suites.harness.declare import spec
from suites.harness.judge import reference
from suites.harness.record import store
from suites.harness.record.schema import Samples
from suites.harness.run import checks, memory, plan, runner
from suites.harness.run.reporter import Reporter

FAKES = Path(__file__).with_name("fakes.py")
WEIGHTS = 4 * (16 * 16 + 16)
TEXT = f"""
name = "large"
backends = ["{FAKES}:Right", "{FAKES}:Slower", "{FAKES}:Chatty"]
rounds = 3
[[models]]
name = "mlp"
options = {{ widths = "16-16" }}
"""


class Listener(Reporter):
    def __init__(self):
        self.units, self.done, self.lines = 0, 0, []

    def start(self, units, text, done=0):
        self.units += units
        self.done += done

    def advance(self, units=1):
        self.done += units

    def skip(self, units):
        self.done += units

    def say(self, text):
        self.lines.append(text)


def fit_processes(processes, monkeypatch):
    needed = memory.WORKER_BYTES + memory.COPIES * WEIGHTS
    monkeypatch.setattr(memory.machine, "available_bytes", lambda: processes * needed)


def test_a_case_without_a_declared_limit_is_divided_when_memory_is_short(tmp_path, monkeypatch):
    fit_processes(2, monkeypatch)
    listener = Listener()
    outcome = runner.run(plan.make(spec.parse(TEXT, "large.toml")), tmp_path, listener)
    assert [line.status for line in outcome.summaries] == ["ok"] * 5
    of = {}
    for line in store.read(outcome.path).of(Samples):
        of.setdefault(line.generation, []).append(line.backend.rpartition(":")[2])
    pair = ["eager", "eager#2"]
    assert of == {
        0: [*pair, "Right", "Slower"],
        1: [*pair, "Right", "Slower"],
        2: [*pair, "Chatty"],
        3: [*pair, "Chatty"],
    }
    where, line = listener.lines
    assert where == f"records go to {store.runs_folder(tmp_path).resolve()}"
    assert line.startswith("mlp/b1/t1/fp32/widths=16-16: 5 processes with ")
    assert line.endswith(" do not fit into memory, so the backends take turns in 2 parts")
    assert listener.done == listener.units == 14


def test_backends_that_cannot_run_a_case_take_no_memory(monkeypatch):
    text = TEXT.replace('"' + f'{FAKES}:Slower"', '"torchao", "onnxruntime_dynamic"')  # neither runs an mlp in float32
    made = plan.make(spec.parse(text, "large.toml"))
    ((case, refs),) = made.cases
    idle = [ref for ref in refs if checks.unavailable(case, ref)]
    assert [ref.name for ref in idle] == ["torchao", "onnxruntime_dynamic"]
    fit_processes(4, monkeypatch)
    fit = memory.count_that_fit(WEIGHTS)
    assert [len(part) for part in made.parted(case, refs, fit)] == [4, 4]
    (whole,) = made.parted(case, refs, fit, idle)
    assert sorted(ref.label for ref in whole) == sorted(ref.label for ref in refs)


def test_memory_that_is_enough_or_unknown_divides_nothing(monkeypatch):
    made = plan.make(spec.parse(TEXT, "large.toml"))
    ((case, refs),) = made.cases
    fit_processes(5, monkeypatch)
    assert made.parted(case, refs, memory.count_that_fit(WEIGHTS)) == [refs]
    monkeypatch.setattr(memory.machine, "available_bytes", lambda: None)
    assert made.parted(case, refs, memory.count_that_fit(WEIGHTS)) == [refs]


def test_a_declared_limit_counts_however_much_memory_there_is(monkeypatch):
    made = plan.make(spec.parse(f"{TEXT}together = 4\n", "large.toml"))
    ((case, refs),) = made.cases
    fit_processes(100, monkeypatch)
    assert [len(part) for part in made.parted(case, refs, memory.count_that_fit(WEIGHTS))] == [4, 3]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_reference_knows_how_large_the_weights_are(precision):
    ((case, _),) = spec.parse(TEXT, "large.toml").model_copy(update={"precision": [precision]}).cases()
    size = {"fp32": WEIGHTS, "bf16": WEIGHTS // 2}
    assert [one.weight_bytes for one in reference.compute(case, 2)] == [size[precision]] * 2


def test_a_weight_that_two_modules_share_is_counted_once():
    first = torch.nn.Linear(4, 4, bias=False)
    second = torch.nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert reference._count_bytes(torch.nn.Sequential(first, second)) == 64
