"""A call that torch runs and that fails is an ExecutionError with the call, its line and its module."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

import engine
from tests import messages

X = 4 * torch.eye(4)


class Root(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x)


class Roots(nn.Module):
    """The engine has neither roots of matrices nor transforms to frequencies: one segment has several calls."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.root, self.linear = Root(), nn.Linear(4, 4)

    def forward(self, x):
        y = self.root(x)
        return self.linear(y) + torch.fft.fft(y).real


LINES, START = inspect.getsourcelines(Root)
LINE = START + next(number for number, line in enumerate(LINES) if "linalg.cholesky" in line)
CALLS = ("linalg_cholesky", "_linalg_check_errors")  # with torch.compile the check for errors is a call of its own
TOLD = tuple(f"aten.{call}.default at {Path(__file__)}:{LINE} in root: linalg.cholesky: The factor" for call in CALLS)


def check_text(text):
    assert text.startswith(TOLD)
    assert "\n" not in text


@pytest.fixture(scope="module")
def program():
    return engine.compile(Roots().eval(), (X,), engine.Config(fallback="torch"))


@pytest.mark.parametrize("call", ["__call__", "trace", "profile"])
def test_a_call_of_torch_that_fails_is_named(program, call):
    with pytest.raises(engine.ExecutionError) as caught:
        getattr(program, call)(-X)
    check_text(str(caught.value))
    assert isinstance(caught.value.__cause__, RuntimeError | IndexError)
    torch.testing.assert_close(program(X), Roots().eval()(X))  # it still runs


def test_under_torch_compile_too():
    model = torch.compile(Roots().eval(), backend="engine")
    with torch.no_grad():
        torch.testing.assert_close(model(X), Roots().eval()(X))
        with pytest.raises(engine.ExecutionError) as caught:
            model(-X)
    check_text(str(caught.value))


def test_an_error_of_the_users_operator_keeps_its_text_and_its_cause():
    @torch.library.custom_op("tests_of_failures::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            raise ValueError("too much\nof it  (Could this error message be improved?  If so, please report it.)")
        return x * 2

    @picky.register_fake
    def _(x):
        return torch.empty_like(x)

    class Picky(nn.Module):
        def forward(self, x):
            return picky(x) + 1

    program = engine.compile(Picky().eval(), (-torch.ones(3),), engine.Config(fallback="torch"))
    torch.testing.assert_close(program(-torch.ones(3)), -torch.ones(3))
    with messages.raises(engine.ExecutionError) as caught:
        program(torch.ones(3))
    assert isinstance(caught.value.__cause__, ValueError)
