"""How kernels are started on a CUDA device, with a stand-in for torch's CUDA graphs: one launch of a graph a call."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
import torch

from engine.errors import ExecutionError
from engine.targets.triton import capture as graph_module
from engine.targets.triton.capture import Start, capture
from tests import messages


class _Compiled:
    def __init__(self, events: list[str], name: str) -> None:
        self.events, self.name = events, name

    def _init_handles(self) -> None:
        self.events.append(f"load {self.name}")


class _Kernel:
    def __init__(self, events: list[str], name: str, *, fails: bool = False) -> None:
        self.events, self.name, self.fails = events, name, fails

    def warmup(self, *, grid: Any, **arguments: Any) -> _Compiled:
        if self.fails:
            raise ValueError("no such instruction")
        self.events.append(f"compile {self.name} {grid} {arguments}")
        return _Compiled(self.events, self.name)

    def __getitem__(self, grid: Any) -> Any:
        return lambda **arguments: self.events.append(f"start {self.name} {grid} {arguments}")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    class Graph:
        def replay(self) -> None:
            found.append("replay")

    @contextmanager
    def graph(_graph: Graph, **options: Any) -> Any:
        found.append(f"begin {options}")
        yield
        found.append("end")

    @contextmanager
    def device(place: str) -> Any:
        found.append(f"device {place}")
        yield

    monkeypatch.setattr(graph_module, "is_interpreted", lambda: False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "device", device)
    return found


def test_kernels_are_loaded_before_they_are_captured_and_a_call_is_one_launch(events: list[str]) -> None:
    starts = [Start(_Kernel(events, name), (n,), {"n": n}, {"num_warps": 4}, name) for n, name in enumerate("ab", 1)]
    run = capture(starts, "cuda:1")
    arguments = [f"{{'n': {n}, 'num_warps': 4}}" for n in (1, 2)]
    assert events == [
        "device cuda:1",
        f"compile a (1,) {arguments[0]}",
        "load a",
        f"compile b (2,) {arguments[1]}",
        "load b",
        "begin {'capture_error_mode': 'thread_local'}",
        f"start a (1,) {arguments[0]}",
        f"start b (2,) {arguments[1]}",
        "end",
    ]
    events.clear()
    run()
    run()
    assert events == ["replay", "replay"]


def test_a_kernel_that_cannot_be_compiled_is_named(events: list[str]) -> None:
    start = Start(_Kernel(events, "a", fails=True), (1,), {}, {}, "linear at model.py:3")
    with messages.raises(ExecutionError):
        capture([start], "cuda:0")
    assert "begin" not in " ".join(events)
