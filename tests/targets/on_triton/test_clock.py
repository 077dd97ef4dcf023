"""Profiles and traces of the Triton target: by Triton's interpreter, and with a stand-in for the events of CUDA."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
from engine import Config
from engine.runtime.program import Program
from engine.targets.triton import clock
from engine.targets.triton.capture import Start
from engine.targets.triton.clock import time_steps
from engine.targets.triton.device import TritonDevice
from engine.targets.triton.torch_internals import CYCLES_PER_SECOND
from tests import messages

ON_TRITON = Config(target="triton")


class Looked(nn.Module):
    """A table, whose indices can be out of range, and a sum that is added to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Embedding(7, 16), nn.Linear(16, 8)
        self.register_buffer("total", torch.zeros(3, 8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.total.add_(torch.softmax(self.last(self.table(ids)), -1))
        return self.total * 2


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.tensor([1, 5, 0])


@pytest.fixture(scope="module")
def program(ids: torch.Tensor) -> Program:
    compiled = engine.compile(Looked().eval(), (ids,), ON_TRITON)
    assert isinstance(compiled, Program)
    return compiled


def test_a_profile_has_the_time_of_every_step(program: Program, ids: torch.Tensor) -> None:
    began = time.perf_counter()
    profile = program.profile(ids, runs=3, state=program.new_state())
    passed = time.perf_counter() - began
    plan = program._example.executable.plan
    assert plan is not None
    assert [node.kernel for node in profile.nodes] == [step.kernel.name for step in plan.steps]
    assert len(profile.nodes) > 2
    assert min(node.seconds for node in profile.nodes) > 0
    busy = sum(node.seconds for node in profile.nodes)
    assert busy == pytest.approx(profile.seconds)  # a step begins where the one before it ends
    assert (len(profile.threads), profile.threads[0].busy_seconds) == (1, pytest.approx(busy))
    assert sum(node.time_share for node in profile.nodes) == pytest.approx(1)
    assert 2 * (profile.seconds + profile.call_seconds) <= passed  # two of three are no shorter than the median
    assert profile.clock == "perf_counter_ns"
    assert (profile.peak_flops, profile.bandwidth) == (0, 0)  # nobody has measured the roofs
    assert {node.roof_share for node in profile.nodes} == {None}


def test_a_profile_changes_neither_the_state_nor_later_calls(program: Program, ids: torch.Tensor) -> None:
    state, other = program.new_state(), program.new_state()
    first = program(ids, state=state)
    before = state["total"].copy()
    program.profile(ids, runs=1, roofs=False, state=state)
    assert (state["total"] == before).all()
    assert torch.equal(program(ids, state=other), first)


def test_a_profile_reports_an_index_out_of_range(program: Program, ids: torch.Tensor) -> None:
    with messages.raises(engine.ExecutionError):
        program.profile(torch.tensor([1, 7, 0]), runs=1, roofs=False, state=program.new_state())
    assert program(ids, state=program.new_state()).isfinite().all()


def test_a_trace_has_the_time_of_every_instruction_that_runs(program: Program, ids: torch.Tensor) -> None:
    nodes = program.trace(ids, state=program.new_state()).nodes
    assert [node.seconds > 0 for node in nodes] == [node.op.view is None for node in program.lowered.nodes]


SLOW = 0.05
"""Seconds."""


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the device takes a while."""
    real = TritonDevice.wait

    def wait(device: TritonDevice) -> None:
        time.sleep(SLOW)
        real(device)

    monkeypatch.setattr(TritonDevice, "wait", wait)


@pytest.mark.usefixtures("_slow")
def test_the_time_of_a_call_ends_when_the_device_has_done_the_work(program: Program, ids: torch.Tensor) -> None:
    profile = program.profile(ids, runs=1, roofs=False, state=program.new_state())
    assert profile.call_seconds >= 2 * SLOW  # the call itself waits once, for results on the host


@pytest.mark.usefixtures("_slow")
def test_the_times_of_what_torch_runs_end_when_the_device_has_done_the_work() -> None:
    model, x = nn.Sequential(nn.MaxPool1d(2), nn.AvgPool1d(2)).eval(), torch.randn(1, 2, 8)
    program = engine.compile(model, (x,), Config(target="triton", fallback="torch"))
    profile = program.profile(x, runs=1, roofs=False)
    assert [node.op for node in profile.nodes] == ["torch"]
    assert profile.nodes[0].seconds >= SLOW
    assert profile.call_seconds >= SLOW


# --- with a stand-in for torch.cuda ----------------------------------------------------------------------------------


class _Device:
    """A device whose kernels take a known number of nanoseconds, and that logs what it is asked for."""

    def __init__(self) -> None:
        self.now, self.log = 0, list[str]()

    def kernel(self, name: str, nanoseconds: int) -> Start:
        """A start of a kernel that takes so long."""
        device = self

        class Kernel:
            def __getitem__(self, grid: Any) -> Callable[..., None]:
                def start(**_arguments: Any) -> None:
                    device.log.append(name)
                    device.now += nanoseconds

                del grid
                return start

        return Start(Kernel(), (1,), {}, {}, name)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> _Device:
    device = _Device()

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing
            self.at = 0

        def record(self) -> None:
            device.log.append("record")
            self.at = device.now

        def synchronize(self) -> None:
            device.log.append("wait")

        def elapsed_time(self, other: Event) -> float:
            return (other.at - self.at) / 1e6

    def sleep(cycles: int) -> None:
        device.log.append("hold")
        device.now += round(cycles / CYCLES_PER_SECOND * 1e9)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", sleep)
    monkeypatch.setattr(torch.cuda, "device", lambda _place: nullcontext())
    return device


def test_events_surround_the_starts_of_each_step(device: _Device) -> None:
    steps = [[device.kernel("a", 1500), device.kernel("b", 500)], [], [device.kernel("c", 7_000_250)]]
    times = time_steps(steps, "cuda:0")
    assert device.log == ["hold", "record", "a", "b", "record", "record", "c", "record", "wait"]
    assert times[:3] == ((2000, 0, 7_000_250), 7_002_250, "cuda events")
    assert 0 < times.host_seconds < 1


@pytest.mark.parametrize(
    ("expected", "held"),
    [(None, 1.5 * clock.HOST_SECONDS * 2), (0.004, 0.006), (10.0, clock.MOST_HELD_SECONDS)],
)
def test_the_device_is_held_back_until_the_host_has_started_the_kernels(
    device: _Device, expected: float | None, held: float
) -> None:
    time_steps([[device.kernel("a", 0)], [device.kernel("b", 0)]], "cuda:0", expected)
    assert device.now == pytest.approx(held * 1e9)
