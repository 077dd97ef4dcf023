"""`Program.trace`: names, kinds and neighbours of values, statistics, and the first bad value."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import Config, ConfigError
from engine.runtime.trace import summarise
from tests import messages
from tests.golden import models as golden


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 3)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf, 0.0]))

    def forward(self, x):
        scores = self.last(torch.log(self.first(x).abs() + 0.5)) + self.mask
        return torch.softmax(scores, -1), scores.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        return [block(number * x) for number, block in enumerate(self.blocks, 1)]


X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(params=["cpu", "interpreter", "torch"])
def program(request):
    """Of the engine's own targets, and one of whose calls torch runs a part."""
    if request.param == "torch":
        return engine.compile(Mixed().eval(), (X,), Config(fallback="torch"))
    return engine.compile(Net().eval(), (X,), Config(target=request.param))


class Mixed(Net):
    def forward(self, x):
        first = self.blocks[0](x)[0]
        return [(torch.cummax(first, -1)[0], first.sum()), self.blocks[1](2 * x)]


def test_a_module_keeps_what_it_makes(program):
    kept = program.trace(X, keep=["blocks.1.*"]).kept
    assert kept
    named = {one.name: one for node in program.trace(X).nodes for one in node.outputs}
    assert all((named[name].module or "blocks.1").startswith("blocks.1") for name in kept)
    assert len(kept) < len(named)


def test_a_name_of_the_exported_graph_keeps_its_value():
    model, program = Net().eval(), engine.compile(Net().eval(), (X,))
    (kept,) = program.trace(X, keep=["softmax_1"]).kept.values()
    np.testing.assert_allclose(kept, model(X)[1][0].detach(), rtol=1e-6)


def test_a_value_of_the_program_is_not_called_as_another_one_of_the_exported_graph():
    """The program's own names begin with %: here %linear_1 is the exported relu."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU()).eval()
    program = engine.compile(model, (X,))
    made = {value.name: value.exported for node in program.trace(X).nodes for value in node.outputs}
    assert made == {"relu": "relu", "relu_1": "relu_1"}
    for name in made:
        (ours,), (exact,) = (
            t.kept.values() for t in (program.trace(X, keep=[name]), engine.trace(model, (X,), [name]))
        )
        np.testing.assert_allclose(ours, exact, atol=1e-6)


def test_patterns_and_positions_go_together(program):
    names = set(program.trace(X, keep=["blocks.0*"]).kept)
    both = set(program.trace(X, keep=["blocks.0*", 0]).kept)
    assert names < both or 0 in [n.index for n in program.trace(X).nodes if n.module.startswith("blocks.0")]


@pytest.mark.parametrize("keep", [["blocks.7*"], ["sofmax_1"], ["*", "nothing like it"]], ids=str)
def test_a_name_that_matches_nothing_is_refused_with_the_nearest(program, keep):
    with messages.raises(ConfigError):
        program.trace(X, keep=keep)


def test_nodes_know_their_neighbours(program):
    nodes = program.trace(X).nodes
    for node in nodes:
        for parent in node.parents:
            assert parent < node.index
            assert node.index in nodes[parent].children
        for child in node.children:
            assert node.index in nodes[child].parents
    assert sum(len(node.parents) for node in nodes) == sum(len(node.children) for node in nodes) > 0


def test_values_have_a_kind_and_a_place_in_the_model():
    program = engine.compile(Net().eval(), (X,))
    trace = program.trace(X)
    assert [(one.kind, one.shape) for one in trace.inputs] == [("input", (2, 4))]
    assert {one.kind for one in trace.weights} == {"weight", "constant"}
    made = [one for node in trace.nodes for one in node.outputs]
    assert [one.kind for one in made].count("output") == 4
    softmax = next(one for one in made if one.exported == "softmax_1")
    assert (softmax.module, softmax.source.partition(":")[0].rpartition("/")[2]) == ("blocks.1", "test_trace.py")


def test_statistics_are_those_of_numpy(program):
    trace = program.trace(X, keep=["*"])
    for node in trace.nodes:
        for one in node.outputs:
            found, array = one.statistics, one.array[np.isfinite(one.array)].astype(np.float64)
            if array.size:
                assert (found.minimum, found.maximum) == (array.min(), array.max())
                assert (found.mean, found.std) == pytest.approx((array.mean(), array.std()), abs=1e-12)
            assert (found.nans, found.infinities) == (np.isnan(one.array).sum(), np.isinf(one.array).sum())


@pytest.mark.parametrize(
    "array",
    [np.empty((0, 3), np.float32), np.full(2, np.nan, np.float32), np.array(True), np.array([2**62, 2**62])],
    ids=["empty", "NaN", "truth value", "large integers"],
)
def test_statistics_of_special_arrays(array):
    found, finite = summarise(array), array[np.isfinite(array)]
    assert found.maximum == (float(finite.max()) if finite.size else None)
    assert found.std == (0.0 if finite.size else None)
    assert found.nans == np.isnan(array).sum()


def test_a_mask_of_infinities_is_not_bad(program):
    assert program.trace(X).first_bad() is None


def test_the_first_bad_value_is_named_where_it_is_made():
    model = Net().eval()
    with torch.no_grad():
        model.blocks[1].first.bias.fill_(1e38)
        model.blocks[1].first.weight.fill_(3e38)
    trace = engine.compile(model, (X,)).trace(torch.ones(2, 4))
    bad = trace.first_bad()
    assert (bad.what, bad.node.module) == ("Inf", "blocks.1.first")
    assert str(bad).startswith(f"node {bad.node.index}, {bad.node.op}, makes Inf: ")
    assert "in blocks.1.first at " in str(bad)
    limited = trace.first_bad(limit=1e30)
    assert (limited.node, limited.value.kind) == (None, "weight")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_input_and_a_bad_weight_are_named_themselves(program, bad):
    x = X.clone()
    x[1, 2] = bad
    found = program.trace(x).first_bad()
    assert (found.node, found.value.kind, found.what) == (None, "input", "NaN" if np.isnan(bad) else "Inf")
    model = Net().eval()
    with torch.no_grad():
        model.blocks[0].last.weight[1, 1] = bad
    found = engine.compile(model, (X,)).trace(X).first_bad()
    assert (found.node, found.value.kind) == (None, "weight")
    assert found.value.shape in ((3, 8), (8, 3))


def test_a_magnitude_above_a_limit_is_bad_when_it_is_asked_for(program):
    trace = program.trace(X)
    assert trace.first_bad(limit=1e6) is None
    found = trace.first_bad(limit=0.9)
    assert found.what == "a magnitude above 0.9"


def test_a_trace_is_json(program):
    found = json.loads(json.dumps(program.trace(X).to_dict()))
    assert {"index", "op", "attributes", "parents", "children", "device", "outputs"} <= set(found["nodes"][0])
    assert "std" in found["nodes"][0]["outputs"][0]


def test_a_decoder_is_traced_by_entry_point():
    decoder = engine.compile_decoder(golden.set_weights(golden.Tied()), golden.MAX_LENGTH)
    ids, numbers = torch.ones(1, 2, dtype=torch.int64), torch.tensor([0])
    trace = decoder.entry("prefill").trace(ids, numbers, numbers + 2, state=decoder.new_state())
    assert "state" in {one.kind for one in trace.inputs}
