"""`Config.activations`: values of narrow models become float32, and what the model asks for itself is kept."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.graph import Cast, Graph
from engine.ops import TensorType
from engine.passes.widen import find_narrow_type

NARROW = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def compiled(model, *inputs, **options):
    return engine.compile(model.eval(), inputs, engine.Config(target="interpreter", verify=True, **options))


def types_between(program):
    """Element types of what its nodes write, in order."""
    return [value.dtype for node in program.graph.nodes for value in node.outputs]


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(24, 64), nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x):
        return self.last(self.norm(torch.tanh(self.first(x))))


@pytest.mark.parametrize("name", NARROW)
def test_values_between_nodes_are_float32_and_what_goes_in_and_out_keeps_its_type(name):
    torch.manual_seed(0)
    model, x = Layers().to(NARROW[name]), torch.randn(5, 24).to(NARROW[name])
    program = compiled(model, x)
    assert types_between(program)[:-1] == ["float32"] * (len(types_between(program)) - 1)
    result = program(x)
    assert result.dtype is NARROW[name]
    assert set(types_between(compiled(model, x, activations="model"))) == {name}
    exact = model.double()(x.double())
    # Weights are exact. Products of bfloat16 round x to 8 bits, and the result is rounded once more.
    bound = {"bfloat16": 2**-7, "float16": 2**-10}[name]
    assert (result.double() - exact).abs().max() < bound * exact.abs().max()


def test_weights_of_a_bfloat16_model_are_stored_as_they_are_and_each_once():
    model, x = Layers().bfloat16(), torch.randn(5, 24).bfloat16()
    graph = compiled(model, x).graph
    stored = [one for one in graph.constants() if set(one.components) == {"data"}]
    assert len(stored) == 2
    plain = compiled(model, x, activations="model").graph
    # Biases and the norm's weights, 64 * 3 + 8 of them, are float32: 4 bytes instead of 2.
    assert graph.weight_bytes == plain.weight_bytes + 2 * (3 * 64 + 8)


def test_a_rounding_that_the_model_asks_for_is_kept():
    class Rounds(nn.Module):
        def forward(self, x):
            return x.bfloat16().float() * 3

    x = torch.linspace(-1, 1, 101)
    torch.testing.assert_close(compiled(Rounds(), x)(x), x.bfloat16().float() * 3, rtol=0, atol=0)


ROUNDED = {
    "moved": lambda x: x.bfloat16().reshape(2, 1).float(),
    "clamped": lambda x: (x * 1e5).half().relu().float(),
    "joined": lambda x: torch.cat([x.bfloat16(), x.bfloat16()]).float(),
    "reduced": lambda x: x.bfloat16().amax(0).float(),
    "chosen": lambda x: torch.where(x > 0.2, x.half(), x.bfloat16().half()).float(),
    "of 32 bits": lambda x: (x * 1e4).int().bfloat16().reshape(2, 1).float(),
    "twice": lambda x: (x * 1e6).bfloat16().half().relu().float(),
}


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("function", ROUNDED.values(), ids=ROUNDED)
def test_a_cast_to_a_type_that_no_tensor_of_the_model_has_rounds(function, target):
    class Rounds(nn.Module):
        def forward(self, x):
            return function(x)

    x = torch.tensor([0.1001, 0.7003])
    program = engine.compile(Rounds().eval(), (x,), engine.Config(target=target))
    torch.testing.assert_close(program(x), function(x), rtol=0, atol=0)


@pytest.mark.parametrize("own", [(), tuple(NARROW.values())], ids=["no narrow input", "narrow inputs"])
def test_what_decides_reads_the_rounded_numbers(own):
    class Decides(nn.Module):
        def forward(self, x, *_inputs):
            half, other, small = x.half(), x.bfloat16(), (x / 1e9).half()
            decided = half.isinf(), other == 1.0, torch.where(x.half() > 1.0, x, 0.0), small.bool(), x.half().argmin(-1)
            return *decided, half - half, other * 3, small * 3

    x = torch.tensor([[70000.0, 1e5, 1.0002, 1.0001], [-1.0, -1.0001, 1e-3, 0.0]])
    inputs = x, *(x.to(dtype) for dtype in own)
    for found, wanted in zip(compiled(Decides(), *inputs)(*inputs), Decides()(x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_a_cast_to_the_type_that_the_model_computes_in_is_no_rounding_to_keep():
    class Norm(nn.Module):
        """As RMSNorm of transformers: the norm in float32, the product in the type of x."""

        def forward(self, x):
            wide = x.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * x

    x = torch.randn(3, 16).bfloat16()
    program = compiled(Norm(), x)
    wide = x.double()
    exact = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * wide
    assert torch.equal(program(x), exact.bfloat16())


def test_states_become_float32_and_begin_with_the_same_numbers():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.full((4,), 0.5))

        def forward(self, x):
            self.total.add_(x)
            return self.total * 2

    x = torch.full((4,), 2**-9).bfloat16()
    program = compiled(Counts().bfloat16(), x)
    state = program.new_state()
    for _ in range(4):
        result = program(x, state=state)
    assert torch.equal(result.float(), torch.full((4,), 1 + 2**-6))  # bfloat16 would stay at 0.5
    (array,) = (np.asarray(state[name]) for name in state)
    assert array.dtype == np.float32


def test_a_constant_tells_the_narrow_type_of_all_arrays_that_it_is_made_of():
    graph = Graph()
    narrow = [np.ones((2, 3), dtype) for dtype in (ml_dtypes.bfloat16, np.float16)]
    wide = [graph.later(Cast(one, "float32"), TensorType("float32", (2, 3)), "w") for one in narrow]
    assert [find_narrow_type(one) for one in wide] == ["bfloat16", "float16"]
    assert find_narrow_type(graph.permuted(wide[0], (1, 0))) == "bfloat16"
    assert find_narrow_type(graph.joined([wide[0], wide[0]], 0)) == "bfloat16"
    assert find_narrow_type(graph.joined(wide, 0)) is None
    assert find_narrow_type(graph.constant(np.ones(2, np.float32))) is None
    np.testing.assert_array_equal(wide[0].elements, np.ones((2, 3), np.float32))


def test_without_a_wish_the_target_decides():
    """A GPU computes in the model's type, the targets of the host in float32."""
    model, x = Layers().bfloat16().eval(), torch.randn(5, 24).bfloat16()
    found = {name: engine.compile(model, (x,), engine.Config(target=name)) for name in ("interpreter", "triton")}
    assert {name: one.config.activations for name, one in found.items()} == {
        "interpreter": "float32",
        "triton": "model",
    }
    assert "float32" in types_between(found["interpreter"])
    assert set(types_between(found["triton"])) == {"bfloat16"}
    asked = engine.compile(model, (x,), engine.Config(target="triton", activations="float32"))
    assert "float32" in types_between(asked)


class Moves(nn.Module):
    def forward(self, x, y):
        return torch.cat([x.flip(0), nn.functional.pad(y, (0, 2), value=0.3)]).mT.contiguous(), y.mT, torch.tanh(y.mT)


@pytest.mark.parametrize("name", NARROW)
def test_what_is_only_moved_stays_narrow(name):
    torch.manual_seed(0)
    x, y = torch.randn(3, 6).to(NARROW[name]), torch.randn(5, 4).to(NARROW[name])
    program = compiled(Moves(), x, y)
    types = {node.op.name: node.outputs[0].dtype for node in program.graph.nodes}
    assert {types[op] for op in ("flip", "pad", "concat")} == {name}
    assert types["tanh"] == "float32"
    for found, expected in zip(program(x, y)[:2], Moves()(x, y)[:2], strict=True):
        assert torch.equal(found, expected)


class Reduces(nn.Module):
    def forward(self, x):
        of_moved = x.mT.contiguous().amax(-1)
        return x.sum(0), x.mean((0, 1)), of_moved, x.amin(1).flip(0), x.amax(0).sum(), torch.tanh(x.sum(1))


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", NARROW)
def test_a_sum_or_an_extreme_that_is_a_result_reads_narrow_floats_and_rounds_once(name, target):
    torch.manual_seed(0)
    x = torch.randn(70, 131).to(NARROW[name])
    program = engine.compile(Reduces().eval(), (x,), engine.Config(target=target, verify=True))
    found = [(node.op.name, node.outputs[0].dtype) for node in program.graph.nodes]
    assert found.count(("sum", name)) == 1
    assert found.count(("sum", "float32")) == 2  # of a reduction, whose result is not rounded, and of what tanh reads
    assert {op for op, dtype in found if dtype == name} >= {"sum", "mean", "amax", "amin"}
    exact = Reduces()(x.double())
    for number, (one, wide) in enumerate(zip(program(x), exact, strict=True)):
        if number < 5:
            assert torch.equal(one, wide.to(NARROW[name]))


class Writes(nn.Module):
    def forward(self, x, rows, ids, places):
        written = x.index_put((ids,), rows), x.scatter(0, places, rows)
        return *written, x.index_put((ids,), rows, accumulate=True)


@pytest.mark.parametrize("name", NARROW)
def test_a_write_that_replaces_elements_stays_narrow_and_one_that_adds_does_not(name):
    torch.manual_seed(0)
    x, rows = torch.randn(5, 6).to(NARROW[name]), torch.randn(3, 6).to(NARROW[name])
    inputs = x, rows, torch.tensor([4, 0, 2]), torch.tensor([[4], [1], [2]]).expand(3, 6).contiguous()
    program = compiled(Writes(), *inputs)
    types = [node.outputs[0].dtype for node in program.graph.nodes if node.op.name in ("index_put", "scatter")]
    assert types == [name, name, "float32"]
    for found, expected in zip(program(*inputs), Writes()(*inputs), strict=True):
        assert torch.equal(found, expected)
