"""Models that call torch.vmap: the calls inside of it are compiled for all slices at once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from tests import messages


class Scaled(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row.sum() * row)(x)


class Between(nn.Module):
    """A vmap over columns, and calls before and behind it."""

    def forward(self, x):
        return torch.relu(torch.vmap(lambda column: column.exp() - column.amax(), in_dims=1, out_dims=0)(x * 2)) + 1


class WithCallsOfTorch(nn.Module):
    """The engine does not have cummax."""

    def forward(self, x):
        return torch.vmap(lambda row: torch.cummax(row, 0)[0] - row.mean())(x)


X = torch.linspace(-2, 3, 8).reshape(2, 4)


@pytest.mark.parametrize("fallback", [None, "torch"])
@pytest.mark.parametrize("kind", [Scaled, Between])
def test_the_results_are_those_of_the_model(kind, fallback):
    model = kind().eval()
    program = engine.compile(model, (X,), engine.Config(fallback=fallback))
    torch.testing.assert_close(program(X), model(X))
    assert program.report().fallback_nodes == 0


def test_a_program_that_is_exported_already_is_compiled(tmp_path):
    model = Scaled().eval()
    program = engine.compile(torch.export.export(model, (X,)), (X,))
    program.save(tmp_path / "vmap.engine")
    torch.testing.assert_close(engine.load(tmp_path / "vmap.engine")(X), model(X))


def test_torch_runs_calls_inside_that_the_engine_does_not_have():
    model = WithCallsOfTorch().eval()
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model, (X,))
    program = engine.compile(model, (X,), engine.Config(fallback="torch"))
    torch.testing.assert_close(program(X), model(X))
    torch.testing.assert_close(program(-X), model(-X))
