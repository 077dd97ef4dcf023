"""A call that torch runs and that fails is an ExecutionError with the call, its line and its module."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

import engine
from tests import messages

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


class Bags(nn.Module):
    """The engine has neither sums of rows nor transforms to frequencies: one segment of torch has several calls."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.bag, self.linear = nn.EmbeddingBag(10, 4), nn.Linear(4, 4)

    def forward(self, ids):
        y = self.bag(ids)
        return self.linear(y) + torch.fft.fft(y).real


LINES, START = inspect.getsourcelines(Bags)
LINE = START + next(number for number, line in enumerate(LINES) if "self.bag(ids)" in line)
TOLD = f"aten._embedding_bag.default at {Path(__file__)}:{LINE} in bag: "
REASONS = ("Index 0 of input takes value 21", "Expected i < index_size to be true")
"""What torch says of the index: which of the two it is depends on how the weights lie in memory, we think."""


def check_text(text):
    assert text.startswith(TOLD)
    assert text.removeprefix(TOLD).startswith(REASONS)
    assert "\n" not in text
    assert "Could this error message be improved" not in text


@pytest.fixture(scope="module")
def program():
    return engine.compile(Bags().eval(), (IDS,), engine.Config(fallback="torch"))


@pytest.mark.parametrize("call", ["__call__", "trace", "profile"])
def test_a_call_of_torch_that_fails_is_named(program, call):
    with pytest.raises(engine.ExecutionError) as caught:
        getattr(program, call)(IDS + 20)
    check_text(str(caught.value))
    assert isinstance(caught.value.__cause__, RuntimeError | IndexError)
    torch.testing.assert_close(program(IDS), Bags().eval()(IDS))  # it still runs


def test_under_torch_compile_too():
    model = torch.compile(Bags().eval(), backend="engine")
    with torch.no_grad():
        torch.testing.assert_close(model(IDS), Bags().eval()(IDS))
        with pytest.raises(engine.ExecutionError) as caught:
            model(IDS + 20)
    check_text(str(caught.value))


def test_an_error_of_the_users_operator_keeps_its_text_and_its_cause():
    @torch.library.custom_op("tests_of_failures::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            raise ValueError("too much\nof it")
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
