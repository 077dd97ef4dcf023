"""The garbage collector pauses while compiling, and is afterwards as it was."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch import nn

import engine
from engine import collector, passes
from engine.executors.weights import Weights
from engine.exporter import lower


@pytest.fixture(autouse=True)
def _as_before():
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_a_pause_ends_as_it_began(switch):
    switch()
    before = gc.isenabled()
    with collector.paused():
        with pytest.raises(KeyError), collector.paused():
            raise KeyError
        assert not gc.isenabled()  # the outer pause goes on
    assert gc.isenabled() is before


def test_pauses_of_two_threads_end_with_the_later_one():
    gc.enable()
    begun, ended = threading.Event(), threading.Event()

    def first():
        with collector.paused():
            begun.set()
            ended.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10)
    with collector.paused():
        ended.set()
        thread.join(10)
        assert not gc.isenabled()  # the first pause has ended, this one has not
    assert gc.isenabled()


@pytest.mark.parametrize("stage", [(lower.Walk, "run"), (passes, "run"), (Weights, "prepare")])
def test_nothing_is_collected_while_compiling(stage, monkeypatch):
    gc.enable()
    enabled, work = [], getattr(*stage)
    monkeypatch.setattr(*stage, lambda *a, **k: (enabled.append(gc.isenabled()), work(*a, **k))[1])
    engine.compile(nn.Linear(4, 4).eval(), (torch.zeros(1, 4),))
    assert enabled == [False]
    assert gc.isenabled()
