"""A program keeps to the branches of the model's code that torch captured."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine import sizes
from engine.exporter.guards import record_guards
from engine.exporter.signature import list_user_inputs
from engine.exporter.symbols import Symbols
from tests import messages


class Thirds(nn.Module):
    """Doubles x where its length is a multiple of 3."""

    def forward(self, x):
        return x * 2 if x.shape[0] % 3 == 0 else x


class Unsupported(nn.Module):
    """The same with a call that the engine cannot compile."""

    def forward(self, x):
        return torch.special.bessel_j0(x) if x.shape[0] % 3 == 0 else x


class Parts(nn.Module):
    """The branch depends on a size of the parts of an argument."""

    def forward(self, x, *rest, options):
        both = max(x.shape[0], rest[0].shape[0])
        return x.sum() + rest[0].sum() if both > options["Mask"].shape[0] and x.shape[0] % 2 == 0 else x.sum()


@pytest.mark.parametrize("fallback", [None, "torch"])
@pytest.mark.parametrize(
    "dim", [Dim.AUTO, Dim.DYNAMIC, Dim("b", min=2, max=9) + 1, Dim("b", min=2, max=9) * 2], ids=str
)
def test_sizes_of_another_branch_are_refused(dim, fallback):
    model = (Unsupported() if fallback else Thirds()).eval()
    with messages.warns(engine.GuardWarning):
        program = engine.compile(
            model, (torch.randn(6, 4),), engine.Config(fallback=fallback), dynamic_shapes=({0: dim},)
        )
    for size in (6, 12, 18):
        x = torch.randn(size, 4)
        if size <= (10 if getattr(dim, "__name__", "") == "b + 1" else 18):
            torch.testing.assert_close(program(x), model(x), rtol=1e-6, atol=1e-6)
    assert any("% 3) == 0" in guard for guard in program.report().guards)
    for size in (4, 8, 10):
        with messages.raises(engine.ShapeError):
            program(torch.randn(size, 4))


def test_a_size_that_is_left_to_torch_is_named_by_its_input_and_axis():
    shapes = ({0: Dim.AUTO, 1: Dim.DYNAMIC},)
    program = engine.compile(nn.Linear(4, 2).eval(), (torch.randn(3, 5, 4),), dynamic_shapes=shapes)
    assert repr(program) == "<Program Linear(input: float32[input_0, input_1, 4])>"
    with messages.raises(engine.ShapeError):
        program(torch.randn(3, 1, 4))


def test_sizes_below_those_of_a_dim_get_no_explanation_of_dim_auto():
    for limits in ({"min": 3}, {"min": 2, "max": 9}):
        program = engine.compile(nn.ReLU().eval(), (torch.randn(4),), dynamic_shapes=({0: Dim("n", **limits)},))
        with messages.raises(engine.ShapeError):
            program(torch.randn(1))


def test_sizes_of_a_program_of_torch_are_named_by_their_input_and_axis():
    class Joined(nn.Module):
        def forward(self, first, second):
            return torch.cat([first, second.reshape(-1, 2)], 1)

    rows, columns = Dim("rows", min=2), Dim("columns", min=2)
    shapes = {"first": {0: rows, 1: columns}, "second": {0: 2 * rows}}
    examples = {"first": torch.randn(3, 5), "second": torch.randn(6)}
    for order in (shapes, dict(reversed(shapes.items()))):
        chosen = {name: examples[name] for name in order}
        exported = torch.export.export(Joined(), (), chosen, dynamic_shapes=order)
        program = engine.compile(exported, ((), chosen))
        assert set(program.graph.scope.symbols) == {"first_0", "first_1"}
        values = dict(zip(program.graph.signature.input_names, program.graph.call_inputs, strict=True))
        assert repr(values["second"].shape) == "(2*first_0,)"
        given = {"first": torch.randn(4, 2), "second": torch.randn(8)}
        torch.testing.assert_close(program(**given), Joined()(**given), rtol=0, atol=0)
        assert "first_0=4 of 2" in program.report(first_0=4).sizes[0]


def test_a_branch_for_some_sizes_of_a_dim_is_refused_with_its_condition():
    with messages.raises(engine.EngineError):
        engine.compile(Thirds().eval(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim("b", min=2, max=9)},))


def test_a_size_that_is_no_value_of_its_formula_is_refused_with_the_formula():
    model, x = nn.Linear(4, 4).eval(), torch.randn(6, 4)
    program = engine.compile(model, (x,), dynamic_shapes=({0: Dim("b", min=2, max=9) * 2},))
    torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)
    with messages.raises(engine.ShapeError) as raised:
        program(torch.randn(5, 4))
    (limits,) = program.report().sizes
    low, high = limits.partition(" of ")[2].split("..")
    assert f" from {low} to {high}, " in str(raised.value)


def test_a_program_of_torch_keeps_its_guards(tmp_path):
    exported = torch.export.export(Thirds(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim.AUTO},))
    torch.export.save(exported, tmp_path / "thirds.pt2")
    with messages.warns(engine.GuardWarning):
        program = engine.compile(torch.export.load(tmp_path / "thirds.pt2"), (torch.randn(6, 4),))
    with pytest.raises(engine.ShapeError):
        program(torch.randn(4, 4))
    program.save(tmp_path / "thirds.engine")
    with pytest.raises(engine.ShapeError):
        engine.load(tmp_path / "thirds.engine")(torch.randn(4, 4).numpy())


def test_sizes_of_parts_of_arguments_are_found_by_name():
    shape = {0: Dim.AUTO}
    model, example = Parts().eval(), (torch.randn(6), torch.randn(5))
    options = {"Mask": torch.randn(4)}
    with pytest.warns(engine.GuardWarning):
        program = engine.compile(
            model,
            (example, {"options": options}),
            dynamic_shapes={"x": shape, "rest": (shape,), "options": {"Mask": shape}},
        )
    torch.testing.assert_close(program(*example, options=options), model(*example, options=options))
    with pytest.raises(engine.ShapeError):
        program(torch.randn(5), torch.randn(5), options=options)
    with pytest.raises(engine.ShapeError):
        program(torch.randn(6), torch.randn(5), options={"Mask": torch.randn(8)})


@pytest.fixture
def captured():
    """The placeholders and symbols of a program whose input x has the length b = 6."""
    program = torch.export.export(nn.ReLU(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim("b", min=2, max=99)},))
    inputs, scope = list_user_inputs(program), sizes.Scope()
    symbols = Symbols(scope, program.range_constraints, inputs, {(inputs[0].name, 0): "b"})
    return inputs, scope, symbols, f"L['{inputs[0].name}'].size()[0]"


@pytest.mark.parametrize(
    ("condition", "guards"),
    [
        ("{} % 3 == 0", ["(b % 3) == 0"]),
        ("{} // 4 < 2", ["(b // 4) - 2 < 0"]),
        ("not ({} == 7)", ["b - 7 != 0"]),
        ("3 < {} <= 9", ["b - 4 >= 0", "b - 10 < 0"]),
        ("{} > 50 or {} ** 2 == 36", ["b - 51 < 0", "b*b - 36 == 0"]),
        ("max({}, 10) == 10 and -{} != -5", ["b - 10 < 0", "- b + 5 != 0"]),
        ("{} >= 2", []),  # as the range says
        ("-(-{} // 2) == (1 + {}) // 2", []),  # all sizes meet it
        ("L['input'].stride()[0] == 4", []),
    ],
)
def test_conditions_become_guards(captured, condition, guards):
    inputs, scope, symbols, size = captured
    with scope.deciding():
        assert record_guards([condition.replace("{}", size)], inputs, symbols) == []
    assert [str(guard) for guard in scope.guards] == guards


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("{} / 4 == 1.5", "((b / 4) == 1.5)"),
        ("1.0 - {}**0.5 < 0", "((1.0 + (-1 * (b ** 0.5))) < 0)"),
        ("-{} / 2 > -3.5", "((-1 * 3.5) < ((-1 * b) / 2))"),
        ("math.trunc(torch.sym_float({}) * 0.4) != 3", "(trunc((b * 0.4)) != 3)"),
        ("float({}) >= math.sqrt({} + 1)", "(sqrt((b + 1)) <= b)"),
    ],
)
def test_conditions_on_floats_are_recorded(captured, condition, text):
    inputs, scope, symbols, size = captured
    with scope.deciding():
        assert record_guards([condition.replace("{}", size)], inputs, symbols) == []
    assert [str(one) for one in scope.conditions] == [text]


@pytest.mark.parametrize(
    "condition",
    [
        "{} / 4 == 1.4",
        "math.log({}) < 9",
        "L['other'].size()[0] == 6",
        "__import__('os').getpid() == 1",
        "{} ==",
        "{} % ({} - 6) == 0",
        "{} == 7",
        "L",
    ],
)
def test_other_conditions_are_given_back_and_never_executed(captured, condition):
    inputs, scope, symbols, size = captured
    condition = condition.replace("{}", size)
    with scope.deciding():
        assert record_guards([condition], inputs, symbols) == [condition]


def test_a_condition_that_no_call_can_check_is_warned_of(monkeypatch):
    monkeypatch.setattr("engine.exporter.torch_export.guards_of", lambda _program: ["math.log(L['x'].size()[0]) < 9"])
    with messages.warns(engine.GuardWarning):
        engine.compile(Thirds().eval(), (torch.randn(6, 4),))
