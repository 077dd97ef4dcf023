"""Arguments of profile and trace that mean nothing are refused by name; what holds memory cannot be copied."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import ConfigError
from tests import messages

X = torch.linspace(-2, 2, 8).reshape(2, 4)


class Mixed(nn.Module):
    """The engine runs the linear layers, and torch `cummax` with the choice of its first result."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(torch.cummax(self.first(x), -1)[0])


@pytest.fixture(scope="module", params=["engine", "torch"])
def program(request):
    if request.param == "engine":
        return engine.compile(nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)).eval(), (X,))
    return engine.compile(Mixed().eval(), (X,), engine.Config(fallback="torch"))


@pytest.mark.parametrize("runs", [0, -1, 1.5, "a", None, True], ids=repr)
def test_a_number_of_runs_that_cannot_be_measured_is_refused(program, runs):
    with messages.raises(ConfigError):
        program.profile(X, runs=runs)


def test_a_profile_measures_roofs_or_not(program):
    with messages.raises(ConfigError):
        program.profile(X, roofs="no")
    assert program.profile(X, runs=1, roofs=False).runs == 1


@pytest.mark.parametrize("keep", [3, "ab", [1.5], [None], [True], [b"a"]], ids=repr)
def test_what_lists_no_positions_is_refused(program, keep):
    with messages.raises(ConfigError):
        program.trace(X, keep=keep)


def test_a_position_that_no_node_has_is_refused_with_the_nearest(program):
    count = len(program.trace(X).nodes)
    for position in (count, 999, -1):
        with messages.raises(ConfigError):
            program.trace(X, keep=[0, position])


@pytest.mark.parametrize("form", [list, tuple, iter, np.array], ids=lambda form: form.__name__)
def test_the_arrays_of_the_listed_positions_are_kept(program, form):
    count = len(program.trace(X, keep=[]).nodes)
    for position in range(count):
        nodes = program.trace(X, keep=form([position])).nodes
        kept = {one.name for node in nodes for one in node.outputs if one.array is not None}
        read = {one.name for one in nodes[position].inputs if one is not None and one.kind == "computed"}
        assert kept == {one.name for one in nodes[position].outputs} | read


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 4))

    def forward(self, x):
        return self.total.add_(x) * 2


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda way: way.__name__)
def test_a_state_cannot_be_copied_and_its_arrays_can(copied):
    program = engine.compile(Counter().eval(), (X,))
    state = program.new_state()
    program(X, state=state)
    with messages.raises(TypeError):
        copied(state)
    kept = pickle.loads(pickle.dumps(dict(state)))
    program(X, state=state)
    np.testing.assert_array_equal(kept["total"], X)  # sums of zero are exact
