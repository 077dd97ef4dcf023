"""What surrounds the calls: constants, inputs, outputs, in-place writes, structure, the process's own settings."""

import logging
import sys
import time
import warnings
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import engine
from engine.errors import ConfigError
from engine.exporter import decompositions, export
from engine.graph import verify
from tests import messages
from tests.exporter.cases import f32, i64
from tests.exporter.evaluate import call


def of(function, *inputs, **keywords):
    """Export a function as a module."""

    class Function(nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    return export(Function().eval(), (inputs, keywords))


def assert_same(function, *inputs):
    """The exported function computes what the function computes, which may write to its own tensors only."""
    graph = of(function, *inputs)
    verify.graph(graph)
    torch.testing.assert_close(call(graph, *inputs), function(*inputs))
    return graph


def ops(graph):
    return [node.op.name for node in graph.nodes]


# --- constants --------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.again = nn.Parameter(self.embedding.weight.detach())  # another parameter on the same memory

    def forward(self, ids):
        return self.head(self.embedding(ids)) + functional.linear(self.embedding(ids), self.again)


def test_tied_weights_are_one_value_and_share_the_parameters_memory():
    model = Tied().eval()
    graph = export(model, (i64(5, low=0, high=7),))
    weights = [v for v in graph.constants() if v.data.size > 1]
    assert len(weights) == 1
    assert weights[0].name in dict(model.named_parameters(remove_duplicate=False))
    assert np.shares_memory(weights[0].data, model.embedding.weight.detach().numpy())


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.weight = nn.Parameter(f32(4, 3).t())  # not contiguous
        self.inner.short = nn.Parameter(f32(3, 4, dtype=torch.bfloat16))
        self.register_buffer("saved", f32(4))
        self.register_buffer("unsaved", i64(4), persistent=False)
        self.plain = f32(4)

    def forward(self, x):
        return (
            x
            + self.inner.weight
            + self.inner.short
            + self.saved
            + self.unsaved
            + self.plain
            + torch.tensor([1.0, 2, 3, 4])
        )


def test_every_kind_of_constant_is_found_and_named_by_its_dotted_name():
    model, x = Holder().eval(), f32(3, 4)
    exported = export(model, (x,))
    constants = {v.name: v for v in exported.constants()}
    assert {"inner.weight", "inner.short", "saved", "unsaved"} <= set(constants)
    assert len(constants) == 6  # and the plain tensor, and the one made in forward
    assert constants["inner.weight"].data.flags.c_contiguous
    assert constants["inner.short"].data.dtype == ml_dtypes.bfloat16
    torch.testing.assert_close(call(exported, x), model(x))


def test_what_nothing_reads_is_not_in_the_graph():
    graph = assert_same(lambda x: (torch.sort(x), x.exp())[1], f32(3))
    assert ops(graph) == ["exp"]


# --- outputs and inputs -----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: torch.Tensor
    second: object


def test_nested_outputs_with_none_and_numbers_come_back_in_their_structure():
    def function(x):
        return {"a": [x + 1, None], "b": (x.shape[0], 2.5), "c": Pair(x * 2, True), "d": "text"}

    x = f32(3)
    exported = of(function, x)
    assert exported.signature.output_slots == (0, {"constant": None}, *({"constant": c} for c in (3, 2.5)), 1, *(
        {"constant": c} for c in (True, "text")
    ))  # fmt: skip
    found, expected = call(exported, x), function(x)
    assert isinstance(found["c"], Pair)
    assert found.pop("d") == expected.pop("d")
    torch.testing.assert_close(found, expected)


def test_the_same_value_returned_twice_and_an_input_returned_are_separate_outputs():
    graph = assert_same(lambda x, y: (y, x + y, x, y, x.view(-1)), f32(3), f32(3))
    assert [v.name for v in graph.outputs] == ["args_1", "add", "args_0", "args_1", "args_0"]


def test_an_output_that_is_also_read_is_an_output():
    def function(x):
        y = x + 1
        return y, y * 2, y.relu()

    assert_same(function, f32(3))


def test_a_constant_can_be_an_output():
    model = nn.Linear(3, 2).eval()
    model.forward = lambda _x: model.weight
    exported = export(model, (f32(1, 3),))
    torch.testing.assert_close(call(exported, f32(1, 3)), model.weight.detach())


def test_arguments_that_are_no_tensors_are_constants_of_the_graph():
    def function(x, times, options, *, scale=None, flag=False):
        y = x * times + options["bias"]
        return y if scale is None or not flag else y * scale

    x, bias, scale = f32(3), f32(3), f32(3)
    inputs, keywords = (x, 2, {"bias": bias, "unused": None}), {"scale": scale, "flag": True}
    exported = of(function, *inputs, **keywords)
    assert exported.signature.input_slots == (0, {"constant": 2}, 1, {"constant": None}, 2, {"constant": True})
    assert len(exported.inputs) == len(exported.signature.input_names) == 3
    torch.testing.assert_close(call(exported, *inputs, **keywords), function(*inputs, **keywords))


def test_input_names_are_those_of_forward():
    class Model(nn.Module):
        def forward(self, ids, *, mask):
            return ids * mask["left"]

    exported = export(Model().eval(), ((f32(2),), {"mask": {"left": f32(2)}}))
    assert exported.signature.input_names == ("ids", "mask_left")


def test_one_tensor_given_for_two_arguments_stays_two_inputs():
    x = f32(3)
    exported = of(lambda a, b: a - 2 * b, x, x)
    other = f32(3)
    torch.testing.assert_close(call(exported, other, x), other - 2 * x)


def test_a_weight_given_as_an_input_stays_an_input():
    model = nn.Linear(3, 3).eval()
    exported = export(model, (model.weight,))
    x = f32(3, 3)
    torch.testing.assert_close(call(exported, x), model(x).detach())


def test_an_input_that_nothing_reads_keeps_its_place():
    exported = of(lambda _a, b: b + 1, f32(2), f32(3))
    assert [v.shape for v in exported.inputs] == [(2,), (3,)]


def test_sizes_of_zero_and_rank_0_are_fine():
    def function(x, s):
        return x.sum(0), functional.linear(x, torch.ones(2, 3)), s * 2, torch.cat([x, x])

    assert_same(function, f32(0, 3), f32())


# --- writes in place --------------------------------------------------------------------------------------------


def _writes(x):
    y = x.clone()
    y[:, 1:3].mul_(2)
    y[0] = 5
    y.t()[1].add_(3, alpha=2)
    y[1, ::2] = 0
    y[..., -1].zero_()
    y.masked_fill_(y > 4, 9.0)
    y.view(-1)[3:5].copy_(torch.tensor([1.0, 2.0]))
    z = y.relu_()
    y.add_(1)
    return y, z


def test_writes_into_views_reach_the_tensor_that_they_view():
    assert_same(_writes, f32(3, 4))


def test_a_tensor_made_in_forward_and_written_to_is_made_anew_by_each_call():
    def function(x):
        t = torch.tensor([1.0, 2.0, 3.0])
        t.add_(x)
        return t

    exported = of(function, f32(3))
    for _ in range(2):
        torch.testing.assert_close(call(exported, torch.ones(3)), torch.tensor([2.0, 3.0, 4.0]))


def test_high_level_calls_stay_whole_when_writes_are_taken_out():
    def function(x, w):
        y = functional.layer_norm(functional.linear(x, w), [4]).relu_()
        return functional.scaled_dot_product_attention(y[None], y[None], y[None], is_causal=True)

    graph = assert_same(function, f32(3, 4), f32(4, 4))
    assert {"linear", "layer_norm", "attention"} <= set(ops(graph))


# --- calls that torch decomposes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: functional.softplus(x) + functional.hardswish(x) + torch.addcmul(x, x, x, value=2),
        lambda x: torch.lerp(x, x * 2, 0.3) + functional.glu(torch.cat([x, x], -1)),
        lambda x: torch.logsumexp(x, 1),
        lambda x: torch.repeat_interleave(x, 2, dim=0),
    ],
)
def test_calls_without_a_handler_are_decomposed_by_torch(function):
    assert_same(function, f32(3, 4))


def test_rules_of_decomposition_are_listed_once_and_only_for_a_call_that_nothing_handles(monkeypatch):
    listed = []

    def list_rules():
        listed.append("it takes a third of a second")
        return torch.export.default_decompositions()

    monkeypatch.setattr(decompositions, "default_decompositions", list_rules)
    monkeypatch.setattr(decompositions, "_default_rules", {})
    x = torch.ones(3, dtype=torch.int64)
    assert ops(assert_same(lambda x: x.to(torch.float32) + 1, x)) == ["cast", "add"]  # torch asserts x's type before
    assert not listed
    for function in (lambda x: torch.logsumexp(x, 1), functional.softplus):
        assert_same(function, f32(3, 4))
    assert len(listed) == 1


def test_a_call_that_is_registered_after_the_rules_were_listed_is_decomposed():
    assert_same(functional.softplus, f32(3, 4))
    library = torch.library.Library("engine_test", "DEF")  # the call exists as long as this object
    library.define("twice_and_one(Tensor x) -> Tensor")
    library.impl("twice_and_one", lambda x: x * 2 + 1, "CompositeImplicitAutograd")
    assert_same(torch.ops.engine_test.twice_and_one, f32(3, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        torch.mul,
        torch.div,
        torch.floor_divide,
        lambda x, n: n / x,
        lambda x, n: torch.div(x, n, rounding_mode="floor"),
        lambda x, n: torch.div(x, n, rounding_mode="trunc"),
        lambda x, n: torch.div(x, x.flip(0), rounding_mode="trunc"),
        functional.leaky_relu,
        lambda x, n: torch.addcmul(x, x, x, value=n),
    ],
    ids=["mul", "div", "floor_divide", "reciprocal", "floor", "trunc", "trunc of tensors", "leaky_relu", "addcmul"],
)
def test_numbers_beside_16_bits_are_not_rounded_to_16_bits(function, dtype):
    x = torch.cat([f32(200) * 3, f32(50) * 1e-4, f32(50) * 300]).to(dtype)

    def of_each(x):
        return [function(x, number) for number in (0.1, 1e5, 1e-9, -3.3, 70000, 2)]

    # one rounding more: torch's kernels of several steps keep float32 between them
    torch.testing.assert_close(call(of(of_each, x), x), of_each(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_tensors_of_rank_0_beside_16_bits_are_not_rounded_to_16_bits(kind, dtype):
    functions = (torch.mul, torch.div, torch.floor_divide, lambda x, n: n * x, lambda x, n: n / x)
    numbers = [torch.tensor(number, dtype=kind) for number in (1e5, 1e-8, 1.00290625)]

    def of_each(x, *numbers):
        return [function(x, n) for function in functions for n in numbers]

    inputs = (f32(300) * 30).to(dtype), *numbers
    torch.testing.assert_close(call(of(of_each, *inputs), *inputs), of_each(*inputs), equal_nan=True)


def test_regions_without_gradients_or_with_autocast_off_are_read_in_place():
    def function(x):
        with torch.enable_grad():
            y = x * 2
        with torch.autocast("cpu", enabled=False):
            return y + 1

    assert ops(assert_same(function, f32(3))) == ["mul", "add"]


# --- kinds of models --------------------------------------------------------------------------------------------


def test_an_exported_program_and_a_graph_module_are_models_too():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), f32(2, 4)
    program = torch.export.export(model, (x,))
    for given in (program, torch.fx.symbolic_trace(model), program.module()):
        exported = export(given, (x,))
        assert ops(exported) == ["linear", "relu"]
        torch.testing.assert_close(call(exported, x), model(x).detach())


def test_a_program_in_core_aten_is_a_model_too():
    layer, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu").eval(), f32(2, 3, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, about its own call
        program = torch.export.export(layer, (x,)).run_decompositions()
    torch.testing.assert_close(call(export(program, (x,)), x), layer(x).detach())


def test_a_program_exported_with_dynamic_sizes_keeps_them():
    program = torch.export.export(nn.Linear(4, 4).eval(), (f32(2, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    graph = export(program, (f32(2, 4),))
    ((name, symbol),) = graph.scope.symbols.items()
    assert symbol.example == 2
    assert str(graph.inputs[0].type) == f"float32[{name}, 4]"
    with messages.raises(ConfigError):
        export(program, (f32(2, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))


# --- the process ------------------------------------------------------------------------------------------------


def _settings():
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "seed": torch.initial_seed(),
        "random": torch.get_rng_state().tolist(),
        "filters": list(warnings.filters),
        "stderr": sys.stderr,
        "levels": {name: logging.getLogger(name).level for name in ("", "torch", "torch.fx", "torch.export")},
    }


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_settings_of_the_process_are_as_before(mode):
    model = nn.Linear(3, 3).eval()
    with mode():
        before = _settings()
        exported = export(model, (torch.ones(2, 3),))
        assert _settings() == before
    assert model.weight.requires_grad
    assert model.weight.grad is None
    torch.testing.assert_close(call(exported, torch.ones(2, 3)), model(torch.ones(2, 3)).detach())


def test_times_are_reported():
    began = time.perf_counter()
    report = engine.compile(nn.Tanh().eval(), (f32(3),)).report()
    assert report.export_seconds > 0
    assert report.compile_seconds > 0
    assert report.export_seconds + report.compile_seconds < time.perf_counter() - began


@pytest.mark.parametrize("diagonal", [5, -5, 1 << 60, -(1 << 60)])
@pytest.mark.parametrize("triangle", [torch.tril, torch.triu])
def test_a_diagonal_outside_of_the_matrix_keeps_all_or_nothing(triangle, diagonal):
    assert_same(lambda x: triangle(x, diagonal), torch.ones(3, 4))


def test_a_step_longer_than_the_axis_keeps_one_element():
    assert_same(lambda x: x[1 :: 1 << 60] + 1, torch.arange(6.0).reshape(3, 2))
