"""Tensors whose values are not in memory: a call refuses them, and so does compiling with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import engine
from tests import messages

X = torch.linspace(-2, 2, 24).reshape(3, 8)


def as_module(function) -> nn.Module:
    class Wrapped(nn.Module):
        def forward(self, x):
            return function(x)

    return Wrapped().eval()


def linear() -> nn.Module:
    return nn.Linear(8, 4).eval()


def _zero() -> torch.Tensor:
    return torch._efficientzerotensor(3, 8)


def _fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.randn(3, 8)


def _resized(nbytes: int, rows: slice = slice(None)) -> torch.Tensor:
    tensor = torch.randn(3, 8) if rows == slice(None) else torch.randn(6, 8)[rows]
    tensor.untyped_storage().resize_(nbytes)
    return tensor


def _resized_and_turned() -> torch.Tensor:
    tensor = torch.randn(8, 3).t()
    tensor.untyped_storage().resize_(64)
    return tensor


WITHOUT_MEMORY = {
    "zeros that torch does not store": _zero,
    "fake": _fake,
    "storage of no bytes": lambda: _resized(0),
    "storage of too few bytes": lambda: _resized(95),
    "part that begins after the end": lambda: _resized(0, slice(3, 6)),
    "part that ends after the end": lambda: _resized(96, slice(3, 6)),
    "not contiguous": _resized_and_turned,
    "nested": lambda: torch.nested.nested_tensor([X, X]),
    "jagged": lambda: torch.nested.nested_tensor([X, X], layout=torch.jagged),
    "compressed rows": X.to_sparse_csr,
}


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype", "ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("make", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY.keys())
def test_a_tensor_whose_values_are_not_in_memory_is_refused(make, fixed):
    rows = None if fixed else ({0: torch.export.Dim("rows", min=2, max=64)},)
    program = engine.compile(as_module(lambda x: x * 2), (X,), dynamic_shapes=rows)
    with messages.raises(engine.ShapeError):
        program(make())
    assert torch.equal(program(X), X * 2)


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "dynamic"])
def test_a_masked_array_is_refused(fixed):
    rows = None if fixed else ({0: torch.export.Dim("rows", min=2, max=64)},)
    program = engine.compile(as_module(lambda x: x * 2), (X,), dynamic_shapes=rows)
    array = np.ma.masked_array(X.numpy(), mask=X.numpy() > 0)
    with messages.raises(engine.ShapeError):
        program(array)
    assert np.array_equal(program(array.filled(0)), array.filled(0) * 2)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")  # torch.func.jvp uses it
def test_tensors_that_torch_wraps_are_refused_in_one_sentence():
    program = engine.compile(linear(), (X,))
    row = engine.compile(linear(), (X[0],))
    calls = (
        lambda: torch.func.vmap(row)(X),
        lambda: torch.func.grad(lambda x: program(x).sum())(X),
        lambda: torch.func.jvp(program, (X,), (X,)),
        lambda: torch.func.functionalize(program)(X),
        lambda: torch.export.export(as_module(program), (X,), strict=False),
    )
    for call in calls:
        with messages.raises(engine.ShapeError):
            call()


def test_an_empty_tensor_needs_no_memory():
    program = engine.compile(as_module(lambda x: x + 1), (torch.zeros(0, 8),))
    emptied = torch.zeros(3, 8)[:0]
    emptied.untyped_storage().resize_(0)
    for value in (torch.zeros(0, 8), emptied, np.zeros((0, 8), np.float32)):
        assert program(value).shape == (0, 8)


@pytest.mark.parametrize("nbytes", [0, 64])
def test_a_weight_whose_memory_was_released_is_refused_when_compiling(nbytes):
    model = nn.Linear(8, 4).eval()
    model.weight.untyped_storage().resize_(nbytes)
    with messages.raises(engine.ConfigError):
        engine.compile(model, (X,))


def test_an_example_input_without_memory_is_refused_when_compiling():
    with messages.raises(engine.ShapeError):
        engine.compile(linear(), (_zero(),))
