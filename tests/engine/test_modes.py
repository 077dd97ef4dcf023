"""Calls while torch makes new tensors elsewhere: under another default device, and in a mode that replaces tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.export import Dim

import engine
from tests import messages

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)).eval()


@pytest.fixture(scope="module")
def programs(model):
    """With a fixed batch, and with one that varies."""
    shapes = {"input": {0: Dim("batch", max=9)}}
    return engine.compile(model, (X,)), engine.compile(model, (X,), dynamic_shapes=shapes)


def test_results_are_on_the_cpu_whatever_the_default_device_is(model, programs):
    expected = model(X)
    for program in programs:
        with torch.device("meta"):
            found, array = program(X), program(X.numpy())
            assert program.profile(X, runs=1, roofs=False).nodes
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.from_numpy(array), expected)


def test_compiling_works_under_another_default_device(model):
    class Scaled(nn.Module):
        def forward(self, x):
            return model(x) * 2.5

    with torch.device("meta"):
        program = engine.compile(Scaled().eval(), (X,))
    torch.testing.assert_close(program(X), model(X) * 2.5)


def test_a_mode_that_gives_tensors_no_memory_is_named(programs):
    for program in programs:
        for _ in range(2):
            with FakeTensorMode(allow_non_fake_inputs=True):
                for call in (program, program.trace):
                    with messages.raises(engine.ExecutionError):
                        call(X)
        assert program(X).is_cpu


def test_a_model_is_not_compiled_in_such_a_mode(model):
    with FakeTensorMode(allow_non_fake_inputs=True), messages.raises(engine.ConfigError):
        engine.compile(model, (X,))


@pytest.mark.parametrize("fallback", [None, "torch"])
@pytest.mark.parametrize(
    "transform",
    [
        lambda call: torch.func.functionalize(lambda v: (call(X), v)[1]),
        lambda call: torch.func.grad(lambda v: (v * call(X).sum()).sum()),
    ],
    ids=["functionalize", "grad"],
)
def test_a_transform_around_a_call_is_named(model, transform, fallback):
    program = engine.compile(model, (X,), engine.Config(fallback=fallback))
    with messages.raises(engine.ExecutionError):
        transform(program)(torch.randn(3))
