"""Two executions beside each other: both errors of a value, what is said, and what cannot be compared."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import ComparisonError, ConfigError, ShapeError
from engine.inspect.exported import Exported, Noise
from engine.inspect.sides import Run
from engine.runtime.specialised import Specialised
from tests import messages
from tests.inspect.planted import cases
from tests.inspect.planted.plant import planted, read_faults

FAULT = next(fault for fault in read_faults() if fault.name == "residual-is-added-before-the-activation")


class Residual(nn.Module):
    """Two products, of which the second adds to what the first one reads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(37, 70), nn.Linear(70, 37)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


MODEL, X = Residual().eval(), torch.randn(5, 37, generator=torch.Generator().manual_seed(0))


class Shown:
    """A runtime that shows what it is told to."""

    label, notes = "other", ("it was asked nicely",)

    def __init__(self, found):
        self._found = found

    def values(self, _names, _inputs):
        return self._found


def exact(name):
    """The elements of a value of `MODEL` in float64."""
    x = X.double()
    up = torch.relu(x @ MODEL.up.weight.double().T + MODEL.up.bias.double())
    return {"relu": up, "add": x + up @ MODEL.down.weight.double().T + MODEL.down.bias.double()}[name].detach().numpy()


def test_each_value_has_the_error_of_the_run():
    found = engine.diff(MODEL, (X,))
    traced = engine.compile(MODEL, (X,)).trace(X, keep=["*"])
    made = {one.exported: one.array for node in traced.nodes for one in node.outputs}
    assert [one.name for one in found.values] == ["relu", "add"]
    for one in found.values:
        expected = exact(one.name)
        error = np.linalg.norm(made[one.name] - expected) / np.linalg.norm(expected)
        assert one.error == pytest.approx(error, rel=1e-6)
        assert (one.op, one.is_wrong) == ("linear", False)
    assert found.first_wrong is None
    assert found.unseen == 0
    (compared,) = found.comparison.differences
    index = compared.worst
    assert compared.values == pytest.approx((made[found.worst.name][index], exact(found.worst.name)[index]))


def test_a_model_in_bfloat16_is_judged_by_torch_in_bfloat16():
    model, x = nn.Linear(8, 8).bfloat16().eval(), X[:, :8].bfloat16()
    found = engine.diff(model, (x,), reference="eager")
    values = {
        one.exported: one.array
        for node in engine.compile(model, (x,)).trace(x, keep=["*"]).nodes
        for one in node.outputs
    }
    expected = model(x).double().detach().numpy()
    error = np.linalg.norm(values["linear"] - expected) / np.linalg.norm(expected)
    assert found.values[-1].error == pytest.approx(error, rel=1e-6)
    assert found.first_wrong is None


def test_a_result_that_is_said_to_equal_another_value_is_looked_at(tmp_path):
    """The pass drops the last op, so no value has its name."""

    class Sums(nn.Module):
        def forward(self, x):
            return torch.cumsum(torch.sort(x)[0], 1)

    path = tmp_path / "drops.py"
    path.write_text(
        "def run(graph):\n    for node in graph.candidates():\n        if node.op.name == 'cumsum':\n"
        "            graph.replace(node.output, node.operand('x'))\n            graph.remove([node])\n    return 1\n"
    )
    found = engine.diff(Sums().eval(), (X,), candidate=engine.Config(passes=(f"{path}:run",)))
    assert (found.first_wrong.name, found.first_wrong.cause) == ("cumsum", "rewrite")
    assert engine.diff(Sums().eval(), (X,)).first_wrong is None


def test_an_error_is_inherited_by_nodes_that_make_none():
    off = Shown({"relu": exact("relu") * 1.01, "add": exact("add")})
    first, second = engine.diff(MODEL, (X,), reference=off).values
    assert first.error == pytest.approx(0.01 / 1.01, rel=1e-3)
    assert first.own < 1e-6, "it reads the input, which is right"
    assert second.own < 1e-6, "it reads what the reference says, and so does the node that judges it"


def test_a_wrong_node_is_named_with_place_element_and_cause():
    model, inputs = cases.residual_after_gelu()
    with planted(FAULT):
        found = engine.diff(model, inputs)
    first = found.first_wrong
    assert (first.cause, first.op) == ("rewrite", "linear")
    index, result, expected = first.worst
    assert abs(result - expected) > 1e-3
    (compared,) = found.comparison.differences
    assert compared.max_abs >= abs(result - expected), "the elements are those of the wrong node"
    text = str(found)
    assert f"The first wrong node: node {first.node}, linear, which makes {first.name}" in text
    assert f"element {list(index)} is" in text
    assert "a pass or the stored weights changed what is computed" in text


def test_sets_of_inputs_that_disagree_are_told(monkeypatch):
    def executable_of(self, graph, *, keep=False):
        """One whose result has a wrong element where the input is large."""
        made = original(self, graph, keep=keep)
        run = made.run

        def wrong(inputs, outputs, states=()):
            run(inputs, outputs, states)
            outputs[0][1, 4] *= 1.01 if inputs[0].flat[0] > 8 else 1

        made.run = wrong
        return made

    original = Specialised.executable_of
    monkeypatch.setattr(Specialised, "executable_of", executable_of)
    found = engine.diff(nn.Softplus().eval(), [(torch.full((3, 5), value),) for value in (4.0, 9.0, 16.0)])
    first = found.first_wrong
    assert (first.sets, first.cause, first.worst[0]) == ((1, 2), "kernel", (1, 4))
    assert "It is wrong for 2 of 3 sets of inputs: 2, 3." in str(found)


def test_other_bits_of_an_ordinary_run_are_told(monkeypatch):
    call = Run.call
    monkeypatch.setattr(Run, "call", lambda self: [array + 1 for array in call(self)])
    found = engine.diff(MODEL, (X,))
    assert not found.is_repeatable
    assert "An ordinary run returns other bits than this one" in str(found)


def test_a_model_with_states_is_called_with_one_set_after_the_other():
    model, sets = cases.cache()
    found = engine.diff(model, sets)
    assert found.first_wrong is None
    assert found.sets == len(sets) > 1
    assert max(one.error for one in found.values) < 1e-5, "the states of both sides move on"


def test_sizes_may_differ_from_the_example():
    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=64)}}
    program = engine.compile(MODEL, (X,), dynamic_shapes=shapes)
    found = engine.diff(MODEL, [(torch.randn(9, 37),), (torch.randn(3, 37),)], candidate=program)
    assert found.first_wrong is None
    assert found.sets == 2


def test_inputs_by_name():
    found = engine.diff(MODEL, ((), {"x": X}))
    assert [one.name for one in found.values] == ["relu", "add"]
    other = Shown({"add": exact("add")})
    assert engine.diff(MODEL, [((), {"x": X})], candidate=other).values[0].error < 1e-6


@pytest.mark.parametrize("reference", ["eager", "interpreter", engine.Config(isa="generic", pipeline=())])
def test_other_references(reference):
    found = engine.diff(MODEL, (X,), reference=reference)
    assert [one.name for one in found.values] == ["relu", "add"]
    assert max(one.error for one in found.values) < 1e-6
    assert found.first_wrong is None


def test_a_loaded_program_is_compared_without_its_model(tmp_path):
    engine.compile(MODEL, (X,)).save(tmp_path / "p")
    program = engine.load(tmp_path / "p")
    found = engine.diff(program, (X,), reference="interpreter")
    assert [one.name for one in found.values] == ["relu", "add"]
    assert all(one.own is not None and not one.is_wrong for one in found.values)
    with messages.raises(ConfigError):
        engine.diff(program, (X,))
    with messages.raises(ConfigError):
        engine.diff(program, (X,), reference="interpreter", candidate=engine.Config())


def test_what_another_runtime_shows_has_the_error_of_its_run():
    found = engine.diff(MODEL, (X,), candidate=Shown({"relu": exact("relu"), "add": exact("add") * 1.5}))
    assert [(one.name, one.own) for one in found.values] == [("relu", None), ("add", None)]
    assert [one.error for one in found.values] == pytest.approx([0, 0.5], abs=1e-6)
    assert found.worst.name == "add"
    assert str(found).endswith("it was asked nicely")
    assert list(found.tabulate()[0]) == ["value", "error"]


class Calls(nn.Module):
    """Calls a function."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *arguments, **named):
        return self._function(*arguments, **named)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: torch.clamp(torch.round(x / 0.1), -128, 127) * 0.1, torch.arange(-200, 200) * 0.05),
        (lambda x: torch.floor(x * (1 / 49.0) * 7), torch.arange(400).float()),
        (lambda x: (x * 0.1 * 5 > 0.5).float() + torch.sign(x - 2), torch.arange(400).float()),
    ],
    ids=["round", "floor", "compare"],
)
def test_an_element_at_a_jump_is_not_judged(function, x):
    assert engine.diff(Calls(function).eval(), (x,)).first_wrong is None


def test_what_is_beyond_the_type_of_the_model_is_infinite_there():
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))
    found = engine.diff(Calls(lambda x: torch.exp(x * 60)).eval(), (x,))
    assert found.first_wrong is None
    assert found.worst.error == np.inf, "the run has infinities that float64 has not"


def test_inputs_of_another_shape_are_refused():
    model = Calls(torch.exp).eval()
    with messages.raises(ShapeError):
        engine.diff(model, [(torch.randn(3, 8),), (torch.randn(1, 8),)])
    program = engine.compile(model, (torch.randn(3, 8),))
    with messages.raises(ShapeError):
        engine.diff(program, (torch.randn(4, 8),), reference="interpreter")


def test_keywords_may_come_in_any_order():
    model = Calls(lambda x, a, b: x * a - b).eval()
    x, a, b = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 5.0)
    seen = []

    class Runtime(Shown):
        def values(self, names, inputs):
            seen.append({name: float(array[0]) for name, array in inputs.items()})
            return {"sub": np.full(3, -3.0)}

    found = engine.diff(model, [((x,), {"a": a, "b": b}), ((x,), {"b": b, "a": a})], candidate=Runtime({}))
    assert [list(one.values()) for one in seen] == [[1, 2, 5], [1, 2, 5]]
    assert found.values[-1].error == 0


def test_a_constant_mask_is_no_bad_value_of_the_exported_program_either():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return torch.softmax(x * self.scale + self.mask, -1)

    model, x = Masked().eval(), torch.randn(4, 4)
    assert engine.trace(model, (x,)).first_bad() is None
    with torch.no_grad():
        model.scale[1] = torch.nan
    bad = engine.trace(model, (x,)).first_bad()
    assert (bad.node, bad.value.kind, bad.what) == (None, "weight", "NaN")


def test_positions_of_the_exported_program_are_those_of_its_trace():
    class Rows(nn.Module):
        def forward(self, x):
            return torch.softmax(x.reshape(x.shape[0] * 2, -1) * 2, -1)

    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=64)}}
    exported = torch.export.export(Rows().eval(), (torch.randn(4, 6),), dynamic_shapes=shapes)
    trace = engine.trace(exported, (torch.randn(4, 6),))
    assert [one.index for one in trace.nodes] == list(range(len(trace.nodes)))
    for one in trace.nodes:
        assert all(one.index in trace.nodes[parent].children for parent in one.parents)


def test_json_and_pictures(tmp_path):
    found = engine.diff(MODEL, (X,))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["first_wrong"] is None
    assert [one["name"] for one in told["values"]] == ["relu", "add"]
    for draw, name in ((found.plot, "a.png"), (found.heatmap, "b.svg")):
        draw(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


class Unrelated:
    """No model, and no side either."""


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ComparisonError, {"inputs": []}),
        (ComparisonError, {"candidate": Shown({"mul": np.zeros(3)})}),
        (ComparisonError, {"reference": Shown({})}),
        (ConfigError, {"reference": "onnx"}),
        (ConfigError, {"candidate": "eager"}),
        (ConfigError, {"reference": Unrelated}),
        (ConfigError, {"candidate": 3}),
        (ConfigError, {"candidate": engine.Config(fallback="torch"), "reference": 3}),
    ],
    ids=["no-sets", "no-value", "empty", "unknown", "text", "class", "number", "reference"],
)
def test_what_cannot_be_compared(error, options):
    with messages.raises(error):
        engine.diff(MODEL, **{"inputs": (X,), **options})


def test_the_judge_evaluates_from_given_values_in_float64():
    from engine import exporter

    exported = Exported(exporter.export_with_torch(MODEL, (X,)), wide=True)
    given = {"relu": np.ones((5, 70), np.float32), "x": X.numpy()}
    expected = X.double() + MODEL.down.weight.double().sum(1) + MODEL.down.bias.double()
    np.testing.assert_allclose(exported.evaluate("add", given), expected.detach(), rtol=1e-14)
    moved = exported.evaluate("add", given, Noise(values=1e-3, seed=1)) - expected.detach().numpy()
    assert 1e-5 < np.abs(moved).max() < 1e-1
    assert exported.evaluate("add", given).dtype == np.float64
