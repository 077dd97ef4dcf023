"""A stand-in for `torch.cuda`: its tensors are in host memory, and its clock moves where a test says so."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from suites.harness.measure.cuda import Cuda

L2_BYTES = 50 << 20
PROPERTIES = SimpleNamespace(
    name="a stand-in", major=9, minor=0, total_memory=1 << 20, multi_processor_count=132, L2_cache_size=L2_BYTES
)
LOG: list[str] = []
"""What was asked of the device, in order."""
_state = {"now_ms": 0.0}


def work(milliseconds):
    """Let the device be busy for so long."""
    LOG.append("work")
    _state["now_ms"] += milliseconds


class Event:
    """Notes the time when it is recorded."""

    def __init__(self, *, enable_timing=False):
        assert enable_timing
        self.at = None

    def record(self):
        LOG.append("record")
        self.at = _state["now_ms"]

    def elapsed_time(self, other):
        return other.at - self.at


class OnHost(Cuda):
    """The device with its tensors in the memory of the host."""

    def unavailable(self):
        return None

    def place_model(self, model):
        return model

    def place(self, tensors):
        return tuple(tensor.clone() for tensor in tensors)

    def has(self, tensor):
        return tensor.is_cpu


def install(monkeypatch):
    """Put the stand-in in the place of `torch.cuda`, and begin a new log."""
    LOG.clear()
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: LOG.append("synchronise"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _number: PROPERTIES)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: LOG.append("reset peak"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 164)
    for name in ("empty", "randn", "randint"):
        monkeypatch.setattr(torch, name, _on_host(getattr(torch, name)))


def _on_host(make):
    def made(*arguments, device=None, **keywords):
        found = make(*arguments, **keywords)
        return Flushed(found) if device == "cuda" and found.numel() > L2_BYTES else found

    return made


class Flushed:
    """A tensor that says when it is written."""

    def __init__(self, tensor):
        self.nbytes = tensor.numel() * tensor.element_size()

    def zero_(self):
        LOG.append(f"write {self.nbytes}")
