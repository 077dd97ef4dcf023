"""Norms behind activations folded into what reads them: what must fold, and for each guard what almost matches."""

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

PLAIN = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}
PADDED = {"low": (1, 0), "high": (0, 1)}
POOL = {"kernel": (2, 2), "stride": (2, 2), "low": (0, 1), "high": (1, 0), "dilation": (1, 1)}
CHANNEL = (4, 1, 1)


def start(*more: tuple[int, ...], dtype: str = "float32") -> tuple[Graph, Value]:
    g = Graph()
    for number, shape in enumerate(((2, 4, 5, 5), *more)):
        g.add_input(f"x{number}", TensorType(dtype, shape))
    return g, g.emit("relu", [g.inputs[0]])


def known(g: Graph, *shape: int, seed: int = 0, dtype: str = "float32") -> Value:
    return g.constant(np.random.default_rng((seed, *shape)).uniform(0.5, 1.5, shape).astype(dtype), "known")


def factor(g: Graph, x: Value, *shape: int) -> Value:
    return g.emit("mul", [x, known(g, *shape, seed=1, dtype=x.dtype)])


def summand(g: Graph, x: Value, *shape: int) -> Value:
    return g.emit("add", [known(g, *shape, seed=2, dtype=x.dtype), x])


def norm(g: Graph, x: Value, *shape: int) -> Value:
    return summand(g, factor(g, x, *shape), *shape)


def conv(g: Graph, x: Value, weight: Value | None = None, bias: Value | None = None, **changed) -> Value:
    weight = known(g, 6, 4, 3, 3, dtype=x.dtype) if weight is None else weight
    return g.emit("conv", [x, weight, bias, None], **{**PLAIN, **changed})


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [CHANNEL, (1, 4, 1, 1), (1, 1, 1), ()])
def test_a_factor_and_a_summand_become_weight_and_bias_of_the_reader(bias, shape):
    g, x = start()
    g.outputs = [conv(g, norm(g, x, *shape), bias=known(g, 6) if bias else None, activation="relu")]
    assert run_pass(g, "fold_norm_forward") == [2]
    assert ops(g) == ["relu", "conv"]


@pytest.mark.parametrize("precision", ["int8_weight", "int8_dynamic", "int4_weight"])
@pytest.mark.parametrize("norm_of", [factor, summand])
def test_nothing_is_folded_into_weights_that_will_be_integers(precision, norm_of):
    """The inputs of a channel share a scale: the largest factor would decide how exact the others are."""
    for by_recipe in (True, False):
        g, x = start()
        weight = known(g, 6, 4, 3, 3)
        if by_recipe:
            weight.precision = precision
        else:
            g.precision = precision
        g.outputs = [conv(g, norm_of(g, x, *CHANNEL), weight)]
        assert run_pass(g, "fold_norm_forward") == [0]
        weight.precision, g.precision = "bf16", "bf16"
        assert run_pass(g, "fold_norm_forward") == [1]


def test_a_norm_with_large_factors_leaves_integers_exact():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1, bias=False)).eval()
        net[1].weight.data = 4.0 ** torch.arange(8)
        x = torch.randn(1, 8, 4, 4) * 4.0 ** -torch.arange(8)[:, None, None]
    weight = net[2].weight.data
    scale = weight.abs().amax((1, 2, 3), keepdim=True) / 127
    expected = nn.functional.conv2d(net[1](net[0](x)), (weight / scale).round() * scale)
    found = engine.compile(net, (x,), engine.Config(precision="int8_weight"))(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)  # orders of sums; the fold made errors of 0.1


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_take_the_factors_of_their_own_channels(groups):
    g, x = start()
    g.outputs = [conv(g, norm(g, x, *CHANNEL), known(g, 8, 4 // groups, 3, 3), groups=groups)]
    assert run_pass(g, "fold_norm_forward") == [2]


def test_a_factor_folds_where_the_reader_pads_and_a_summand_does_not():
    g, x = start()
    g.outputs = [conv(g, factor(g, x, *CHANNEL), **PADDED), conv(g, summand(g, x, *CHANNEL), **PADDED)]
    assert run_pass(g, "fold_norm_forward") == [1]
    assert ops(g) == ["relu", "conv", "add", "conv"]


def test_a_norm_goes_past_pooling_to_the_convolution_behind():
    g, x = start()
    g.outputs = [conv(g, g.emit("max_pool", [norm(g, x, *CHANNEL)], **POOL))]
    assert run_pass(g, "fold_norm_forward") == [4]
    assert ops(g) == ["relu", "max_pool", "conv"]


@pytest.mark.parametrize("transposed", [False, True])
def test_a_norm_goes_past_flattening_into_a_linear(transposed):
    g, x = start()
    weight = known(g, *((7, 100) if transposed else (100, 7)))
    flat = g.emit("reshape", [norm(g, x, *CHANNEL)], shape=(2, 100))
    g.outputs = [g.emit("linear", [flat, weight, known(g, 7), None], transpose_weight=transposed)]
    assert run_pass(g, "fold_norm_forward") == [2]
    assert ops(g) == ["relu", "reshape", "linear"]


def almost() -> dict[str, Graph]:
    made: dict[str, Graph] = {}

    def begin(name: str, *more: tuple[int, ...], dtype: str = "float32") -> tuple[Graph, Value]:
        made[name], x = start(*more, dtype=dtype)
        return made[name], x

    g, x = begin("a factor an element")
    g.outputs = [conv(g, factor(g, x, 4, 5, 5))]
    g, x = begin("a factor a column")
    g.outputs = [conv(g, factor(g, x, 5))]
    g, x = begin("a factor that is not known", CHANNEL)
    g.outputs = [conv(g, g.emit("mul", [x, g.inputs[1]]))]
    g, x = begin("a weight that is not known", (6, 4, 3, 3))
    g.outputs = [conv(g, factor(g, x, *CHANNEL), g.inputs[1])]
    g, x = begin("a bias that is not known", (6,))
    g.outputs = [conv(g, summand(g, x, *CHANNEL), bias=g.inputs[1])]
    g, x = begin("a norm that others read")
    y = factor(g, x, *CHANNEL)
    g.outputs = [conv(g, y), y]
    g, x = begin("half precision", dtype="float16")
    g.outputs = [conv(g, factor(g, x, *CHANNEL))]
    g, x = begin("channels last", (2, 5, 5, 4))
    g.outputs = [conv(g, factor(g, g.inputs[1], 5, 1, 1), channels_last=True)]
    g, x = begin("a residual's norm", (2, 6, 3, 3))
    inputs = [x, known(g, 6, 4, 3, 3), None, factor(g, g.inputs[1], 6, 1, 1)]
    g.outputs = [g.emit("conv", inputs, **PLAIN)]
    g, x = begin("one channel that is widened", (2, 1, 5, 5))
    g.outputs = [conv(g, factor(g, g.inputs[1], *CHANNEL))]
    g, x = begin("a negative factor before the largest")
    factors = g.constant(np.array([1, 1, -1, 1], np.float32).reshape(CHANNEL))
    g.outputs = [g.emit("max_pool", [g.emit("mul", [x, factors])], **POOL)]
    g, x = begin("constants that overflow")
    g.outputs = [
        conv(
            g,
            g.emit("mul", [x, g.constant(np.full(CHANNEL, 3e38, np.float32))]),
            g.constant(np.full((6, 4, 3, 3), 9, np.float32)),
        )
    ]
    g, x = begin("rows that are not flattened")
    lines = g.emit("reshape", [factor(g, x, *CHANNEL)], shape=(8, 25))
    g.outputs = [g.emit("linear", [lines, known(g, 7, 25), None, None])]
    return made


@pytest.mark.parametrize("what", almost())
def test_what_almost_fits_stays(what):
    assert run_pass(almost()[what], "fold_norm_forward") == [0]


class Net(nn.Module):
    """Activations in front of norms: before a convolution, pooling, one that pads, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3), nn.Conv2d(6, 6, 3, padding=1)])
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in self.convs)
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.uniform_(norm.running_mean, -1, 1)
            nn.init.uniform_(norm.running_var, 0.5, 2)
        self.head = nn.Linear(6 * 3 * 3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(torch.relu(conv(x)))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


def test_what_is_left_of_norms_runs_on_images_as_they_lie():
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 10, 10)
    graph = exporter.export(model, (x,))
    passes.run(graph, engine.Config(), check=True)
    assert dict(graph.log)["fold_norm_forward"] == 2 + 4, "into the second convolution, and past pooling into the head"
    assert ops(graph).count("pointwise") == 1, "the norm in front of a padding"
    program = engine.compile(model, (x,))
    assert program.report().copies == 2, "the input, and what is flattened in the order of the model"
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
