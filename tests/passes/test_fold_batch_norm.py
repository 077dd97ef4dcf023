"""Batch norm folded into convolutions: what must fold, and for each guard a graph that almost matches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import exporter, passes
from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

PLAIN = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1)}
CHANNEL = (6, 1, 1)


def start(*shapes: tuple[int, ...], dtype: str = "float32") -> Graph:
    g = Graph()
    for number, shape in enumerate(shapes):
        g.add_input(f"x{number}", TensorType(dtype, shape))
    return g


def known(g: Graph, *shape: int, seed: int = 0) -> Value:
    return g.constant(np.random.default_rng((seed, *shape)).uniform(0.5, 1.5, shape).astype(np.float32), "known")


def conv(g: Graph, x: Value, weight: Value | None = None, bias: Value | None = None, **changed) -> Value:
    residual = changed.pop("residual", None)
    weight = known(g, 6, 4, 3, 3) if weight is None else weight
    return g.emit("conv", [x, weight, bias, residual], **{**PLAIN, **changed})


def scaled(g: Graph, y: Value, *shape: int) -> Value:
    """Batch norm at rest: a factor and a summand a channel."""
    y = g.emit("mul", [y, known(g, *shape, seed=1)])
    return g.emit("add", [known(g, *shape, seed=2), y])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [CHANNEL, (1, 6, 1, 1), (1, 1, 1), ()])
def test_a_factor_and_a_summand_a_channel_become_weight_and_bias(bias, shape):
    g = start((2, 4, 5, 5))
    g.outputs = [scaled(g, conv(g, g.inputs[0], bias=known(g, 6) if bias else None), *shape)]
    assert run_pass(g, "fold_batch_norm") == [2]
    assert ops(g) == ["conv"]


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_keep_their_own_factors(groups):
    g = start((2, 4, 5, 5))
    y = conv(g, g.inputs[0], known(g, 6, 4 // groups, 3, 3), groups=groups)
    z = g.emit("conv_transpose", [y, known(g, 6, 8 // groups, 2, 2), None, None], **PLAIN, groups=groups)
    g.outputs = [scaled(g, z, 8, 1, 1)]
    assert run_pass(g, "fold_batch_norm") == [2]
    assert ops(g) == ["conv", "conv_transpose"]


@pytest.mark.parametrize("what", [{"activation": "relu"}, {"residual": True}])
def test_what_follows_an_epilogue_stays_outside(what):
    g = start((2, 4, 5, 5), (2, 6, 5, 5))
    residual = g.inputs[1] if what.pop("residual", False) else None
    y = g.emit("conv_transpose", [g.inputs[0], known(g, 4, 6, 3, 3), None, residual], **PLAIN, **what)
    g.outputs = [scaled(g, y, 6, 1, 1)]
    assert run_pass(g, "fold_batch_norm") == [0]


def test_two_convolutions_with_one_weight_fold_apart():
    g = start((2, 4, 5, 5))
    weight = known(g, 6, 4, 3, 3)
    g.outputs = [scaled(g, conv(g, g.inputs[0], weight), *CHANNEL), conv(g, g.inputs[0], weight)]
    assert run_pass(g, "fold_batch_norm") == [2]


@pytest.mark.parametrize("shape", [(6, 1, 5), (2, 1, 1, 1), (5,), (1, 1, 1, 1, 1)])
def test_what_is_not_one_number_a_channel_is_left_alone(shape):
    g = start((2, 4, 5, 5))
    g.outputs = [g.emit("mul", [conv(g, g.inputs[0]), known(g, *shape)])]
    assert run_pass(g, "fold_batch_norm") == [0]


def test_a_factor_that_is_not_known_is_left_alone():
    g = start((2, 4, 5, 5), CHANNEL)
    g.outputs = [g.emit("mul", [conv(g, g.inputs[0]), g.inputs[1]])]
    assert run_pass(g, "fold_batch_norm") == [0]


def test_a_weight_or_a_bias_that_is_not_known_is_left_alone():
    g = start((2, 4, 5, 5), (6, 4, 3, 3), (6,))
    x, weight, bias = g.inputs
    g.outputs = [scaled(g, conv(g, x, weight), *CHANNEL), scaled(g, conv(g, x, bias=bias), *CHANNEL)]
    assert run_pass(g, "fold_batch_norm") == [0]


@pytest.mark.parametrize("what", ["activation", "residual", "relu"])
def test_what_comes_after_something_else_is_left_alone(what):
    g = start((2, 4, 5, 5), (2, 6, 5, 5))
    x, residual = g.inputs
    y = conv(g, x, **{"activation": {"activation": "relu"}, "residual": {"residual": residual}}.get(what, {}))
    g.outputs = [scaled(g, g.emit("relu", [y]) if what == "relu" else y, *CHANNEL)]
    assert run_pass(g, "fold_batch_norm") == [0]


def test_a_convolution_that_others_read_is_left_alone():
    g = start((2, 4, 5, 5))
    y = conv(g, g.inputs[0])
    g.outputs = [scaled(g, y, *CHANNEL), y]
    assert run_pass(g, "fold_batch_norm") == [0]


def test_half_precision_is_left_alone():
    g = start((1, 4, 5, 5), dtype="float16")
    weight = g.constant(np.ones((6, 4, 3, 3), np.float16))
    factor = g.constant(np.full(CHANNEL, 0.3, np.float16))
    g.outputs = [g.emit("mul", [conv(g, g.inputs[0], weight), factor])]
    assert run_pass(g, "fold_batch_norm") == [0]


@pytest.mark.parametrize("factor", [np.inf, np.nan, 3e38])
def test_constants_that_overflow_are_left_alone(factor):
    g = start((1, 4, 5, 5))
    weight = g.constant(np.full((6, 4, 3, 3), 10, np.float32))
    g.outputs = [g.emit("mul", [conv(g, g.inputs[0], weight), g.constant(np.full(CHANNEL, factor, np.float32))])]
    assert run_pass(g, "fold_batch_norm") == [0]


# --- conv, norm, sum and activation of a model --------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, transposed: bool = False) -> None:
        super().__init__()
        kind = nn.ConvTranspose2d if transposed else nn.Conv2d
        self.conv = kind(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


@pytest.mark.parametrize(("transposed", "left"), [(False, ["conv"]), (True, ["conv_transpose"])])
def test_a_residual_block_is_one_launch(transposed, left):
    torch.manual_seed(0)
    model, x = Residual(transposed).eval(), torch.randn(2, 4, 5, 5)
    graph = exporter.export(model, (x,))
    passes.run(graph, engine.Config(disable=("channels_last",)), check=True)
    assert ops(graph) == left
    with torch.no_grad():
        torch.testing.assert_close(engine.compile(model, (x,))(x), model(x), rtol=1e-5, atol=1e-5)


def test_without_the_pass_the_norm_stays():
    model, x = Residual().eval(), torch.randn(2, 4, 5, 5)
    graph = exporter.export(model, (x,))
    passes.run(graph, engine.Config(disable=("fold_batch_norm", "channels_last")), check=True)
    assert ops(graph) == ["conv", "pointwise"]
