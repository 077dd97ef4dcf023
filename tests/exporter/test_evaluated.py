"""Calls that depend on no input, which torch computes while compiling; and elements at positions from tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from engine.exporter import evaluate
from tests import messages


class Model(nn.Module):
    """A function of the model and x, with a weight and a buffer."""

    def __init__(self, function):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.function = function
        self.weight = nn.Parameter(torch.randn(3, 3, generator=generator) + 3 * torch.eye(3))
        self.register_buffer("edges", torch.linspace(-1, 1, 9))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        return self.function(self, x)


X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
OF_NO_INPUT = {
    "indices": lambda m, x: x[:, torch.tril_indices(3, 3)[1]],
    "an inverse": lambda m, x: x[:, :3] @ torch.linalg.inv(m.weight),
    "one of several results": lambda m, x: x[:, :3] @ torch.linalg.eigh(m.weight @ m.weight.T)[1],
    "a window": lambda m, x: x * torch.kaiser_window(6),
    "complex numbers between": lambda m, x: x * torch.fft.rfft(m.edges).abs().sum(),
    "places of a tensor": lambda m, x: x[:, :2] + torch.bucketize(torch.tensor([0.1, 0.3]), m.edges),
    "a shape from elements": lambda m, x: x * torch.unique(m.edges.round()).sum(),
}
AT_POSITIONS = {
    "a row": lambda m, x: x[x[:, 0].argmax()],
    "a row by a comparison": lambda m, x: x[(x[0, 0] > 0).long()],
    "a row from the end": lambda m, x: x[-x[:, 0].argmax() - 1],
    "a column": lambda m, x: x[:, x[0].argmax()],
    "an element": lambda m, x: x[x[:, 0].argmax(), x[0].argmax()],
}
CASES = OF_NO_INPUT | AT_POSITIONS


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", CASES)
def test_a_program_computes_what_eager_computes(name, target, tmp_path):
    model, config = Model(CASES[name]).eval(), engine.Config(target=target)
    program = engine.compile(model, (X,), config)
    program.save(tmp_path / "p")
    for one in (program, engine.load(tmp_path / "p", config=config)):
        for x in (X, -X):
            torch.testing.assert_close(torch.as_tensor(one(x)), model(x).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["indices", "a row", "an element"])
def test_triton_reads_the_same_positions(name):
    model = Model(CASES[name]).eval()
    program = engine.compile(model, (X,), engine.Config(target="triton"))
    assert torch.equal(torch.as_tensor(program(X)), model(X).detach())


def test_a_call_that_depends_on_no_input_costs_no_launch():
    program = engine.compile(Model(OF_NO_INPUT["a window"]).eval(), (X,))
    assert program.report().launches == 1


@pytest.mark.parametrize("index", [4, -5])
def test_a_position_out_of_range_is_an_error(index):
    program = engine.compile(Model(lambda m, x: x[x[0, 0].long()]).eval(), (torch.ones(4, 6),))
    with messages.raises(engine.EngineError):
        program(torch.full((4, 6), float(index)))


REFUSED = {
    "random numbers": lambda m, x: x + torch.bernoulli(m.weight.sigmoid()).sum(),
    "a buffer that is written": lambda m, x: (m.seen.add_(1), x[:, :3] @ torch.linalg.inv(m.seen.diag()))[1],
    "a singular matrix": lambda m, x: x[:, :3] @ torch.linalg.inv(m.weight * 0),
    "a slice to a position": lambda m, x: x[: x[:, 0].argmax()],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_the_same_in_every_call_is_refused(name):
    with messages.raises(engine.EngineError):
        engine.compile(Model(REFUSED[name]).eval(), (X,))


def test_a_large_result_is_left_to_calls(monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_BYTES", 35)
    with messages.raises(engine.UnsupportedOp):
        engine.compile(Model(OF_NO_INPUT["an inverse"]).eval(), (X,))


def test_a_long_chain_before_a_refused_call_is_walked_without_recursion():
    def function(m, x):
        for _ in range(1000):
            x = x + 1
        return torch.cummax(x, 1)[0]

    program = engine.compile(Model(function).eval(), (X,), engine.Config(target="interpreter", fallback="torch"))
    torch.testing.assert_close(program(X), function(None, X))


@pytest.mark.parametrize("read", [lambda x, n: x[n], lambda x, n: x[:n], lambda x, n: torch.cummax(x, 1)[0][n]])
def test_beside_calls_of_torch_an_element_is_torchs(read):
    model = Model(lambda _m, x: read(x, x[0, 0].long().item())).eval()
    x = torch.full((4, 6), 2.0)
    program = engine.compile(model, (x,), engine.Config(fallback="torch"))
    torch.testing.assert_close(program(x), model(x))


def test_beside_calls_of_torch_it_is_computed_once_too():
    def function(m, x):
        basis = torch.linalg.eigh(m.weight @ m.weight.T)[1].t()
        return torch.cummax(x[:, :3] @ basis, 1)[0] @ basis

    program = engine.compile(Model(function).eval(), (X,), engine.Config(fallback="torch"))
    assert dict(program.report().kernels)["torch aten.cummax.default"] == program.report().fallback_nodes == 1
    torch.testing.assert_close(program(X), Model(function).eval()(X).detach())
