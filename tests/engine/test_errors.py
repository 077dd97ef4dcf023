"""A defect of the engine is an InternalError, whatever surrounds it: never a refusal, never left to torch."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
import torch
from torch import nn

import engine
from engine.exporter import walk
from engine.exporter.context import Missing
from engine.exporter.handlers import HANDLERS
from tests import messages

RELU = torch.ops.aten.relu.default
X = torch.ones(3, 4)


class Refused(nn.Module):
    """Two calls that the engine does not have, and between them one whose handler the tests break."""

    def forward(self, x):
        return torch.cummax(torch.relu(torch.cummax(x, 0)[0]), 0)[0]


@pytest.fixture
def _defect(monkeypatch):
    """The handler of relu makes a value of another type than torch says."""
    wrong = dataclasses.replace(HANDLERS[RELU], translate=lambda context, self: context.cast(self, "float64"))
    monkeypatch.setitem(HANDLERS, RELU, wrong)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("_defect")
@pytest.mark.parametrize("model", [nn.ReLU(), Refused()], ids=["alone", "among unsupported calls"])
@pytest.mark.parametrize("fallback", [None, "torch"])
def test_a_handler_that_contradicts_torch_is_a_defect(model, fallback):
    with messages.raises(engine.InternalError) as caught:
        engine.compile(model.eval(), (X,), engine.Config(fallback=fallback))
    assert not isinstance(caught.value, engine.UnsupportedOp)


@pytest.mark.usefixtures("_defect")
@pytest.mark.parametrize("model", [nn.ReLU(), Refused()], ids=["alone", "among unsupported calls"])
def test_torch_does_not_run_in_place_of_a_defect_in_a_graph_of_torch_compile(model):
    with pytest.raises(engine.InternalError), torch.no_grad():
        torch.compile(model.eval(), backend="engine")(X)


@pytest.mark.parametrize("fallback", [None, "torch"])
def test_a_result_that_is_lost_is_a_defect(monkeypatch, fallback):
    monkeypatch.setattr(walk.Walk, "run", lambda *_: [Missing(None)])
    with messages.raises(engine.InternalError):
        engine.compile(nn.ReLU().eval(), (X,), engine.Config(fallback=fallback))


def test_a_defect_crosses_processes():
    error = pickle.loads(pickle.dumps(engine.InternalError("two rules contradict")))
    assert (type(error), error.reason) == (engine.InternalError, "two rules contradict")
    assert str(error) == str(engine.InternalError("two rules contradict"))
