"""A linear and the convolution of its every channel become one node; what almost matches each guard does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from engine.targets.cpu.passes import PIPELINE
from engine.targets.cpu.passes.fuse_expand_depthwise import WORTH
from tests.graphs import ops, run_pass
from tests.passes.test_fuse import weight

SIDE, NARROW, WIDE = 64, 2, 64  # what lies between just has the size that counts
PLAIN: dict[str, Any] = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1), "channels_last": True}


def start(dtype: str = "float32", side: int = SIDE) -> Graph:
    """Inputs: x [1, side, side, 2], a weight [64, 2] and a kernel [64, 1, 3, 3] that vary."""
    g = Graph()
    for name, shape in {"x": (1, side, side, NARROW), "w": (WIDE, NARROW), "k": (WIDE, 1, 3, 3)}.items():
        g.add_input(name, TensorType(dtype, shape))
    return g


def expand(g: Graph, w: Value | None = None, bias: Value | None = None, **how: Any) -> Value:
    residual = how.pop("residual", None)
    return g.emit("linear", [g.inputs[0], weight(g, WIDE, NARROW) if w is None else w, bias, residual], **how)


def depthwise(g: Graph, x: Value, k: Value | None = None, residual: Value | None = None, **how: Any) -> Value:
    k = weight(g, WIDE, 1, 3, 3, seed=1) if k is None else k
    return g.emit("conv", [x, k, weight(g, k.shape[0], seed=2), residual], **{**PLAIN, "groups": WIDE, **how})


def test_what_lies_between_just_has_the_size_that_counts():
    assert SIDE * SIDE * WIDE * 4 == WORTH


@pytest.mark.parametrize("how", [{}, {"stride": (2, 3), "low": (0, 1), "high": (1, 1)}, {"dilation": (2, 1)}], ids=str)
def test_the_beginning_of_a_mobile_block_becomes_one_node(how):
    g = start()
    between = expand(g, bias=weight(g, WIDE, seed=3), activation="relu6")
    g.outputs = [depthwise(g, between, activation="silu", **how)]
    first, second = g.nodes
    assert run_pass(g, "fuse_expand_depthwise", "dead_code")[0] == 1
    assert ops(g) == ["expand_depthwise"]
    (node,) = g.nodes
    assert [node[name] for name in ("x", "expand", "expand_bias")] == [first[name] for name in ("x", "weight", "bias")]
    assert [node[name] for name in ("weight", "bias")] == [second[name] for name in ("weight", "bias")]
    kept = {"expand_activation": "relu6", "activation": "silu"}
    assert node.attributes == {**{n: v for n, v in {**PLAIN, **how}.items() if n != "channels_last"}, **kept}


def between_is_returned(g: Graph) -> list[Value]:
    between = expand(g)
    return [depthwise(g, between), between]


def between_is_read_again(g: Graph) -> list[Value]:
    between = expand(g)
    return [depthwise(g, between, residual=between)]


def product_adds_a_residual(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g, residual=weight(g, 1, SIDE, SIDE, WIDE, seed=4)))]


def convolution_adds_a_residual(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g), residual=weight(g, 1, SIDE, SIDE, WIDE, seed=4))]


def product_is_scaled(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g, alpha=0.5))]


def weight_lies_the_other_way(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g, weight(g, NARROW, WIDE), transpose_weight=False))]


def weight_varies(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g, g.inputs[1]))]


def kernel_varies(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g), g.inputs[2])]


def groups_of_two(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g), weight(g, WIDE, 2, 3, 3, seed=1), groups=WIDE // 2)]


def two_results_a_channel(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g), weight(g, 2 * WIDE, 1, 3, 3, seed=1))]


def places_that_nobody_reads(g: Graph) -> list[Value]:
    return [depthwise(g, expand(g), stride=(4, 1))]


def channels_first(g: Graph) -> list[Value]:
    """The last axis of the product is a spatial one here."""
    k = weight(g, SIDE, 1, 3, 3, seed=1)
    return [depthwise(g, expand(g), k, groups=SIDE, channels_last=False)]


@pytest.mark.parametrize(
    "almost",
    [
        between_is_returned,
        between_is_read_again,
        product_adds_a_residual,
        convolution_adds_a_residual,
        product_is_scaled,
        weight_lies_the_other_way,
        weight_varies,
        kernel_varies,
        groups_of_two,
        two_results_a_channel,
        places_that_nobody_reads,
        channels_first,
    ],
    ids=lambda f: f.__name__,
)
def test_almost_such_a_beginning_is_left_alone(almost):
    g = start()
    g.outputs = almost(g)
    assert run_pass(g, "fuse_expand_depthwise") == [0]


def test_what_stays_in_the_caches_by_itself_is_left_alone():
    g = start(side=SIDE - 1)
    g.outputs = [depthwise(g, expand(g))]
    assert run_pass(g, "fuse_expand_depthwise") == [0]


def test_halves_are_left_alone():
    g = start("float16")
    w, k = (g.constant(np.ones(shape, np.float16), "w") for shape in ((WIDE, NARROW), (WIDE, 1, 3, 3)))
    bias = g.constant(np.ones(WIDE, np.float16), "b")
    between = g.emit("linear", [g.inputs[0], w, None, None])
    g.outputs = [g.emit("conv", [between, k, bias, None], **PLAIN, groups=WIDE)]
    assert run_pass(g, "fuse_expand_depthwise") == [0]


class Block(nn.Module):
    """A block of MobileNetV2 (Sandler et al. 2018): wider, every channel alone, narrower."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(5, 70, 1),
            nn.ReLU6(),
            nn.Conv2d(70, 70, 5, stride=2, padding=2, groups=70, bias=False),
            nn.ReLU6(),
            nn.Conv2d(70, 6, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


@pytest.mark.parametrize("batch", [1, 3])
def test_a_block_has_one_node_less_and_no_wide_tensor(batch):
    x = torch.randn(batch, 5, 70, 61)
    model = Block().eval()
    fused = engine.compile(model, (x,))
    apart = engine.compile(model, (x,), engine.Config(disable=("fuse_expand_depthwise",)))
    assert apart.report().nodes - fused.report().nodes == 1
    assert fused.report().arena_bytes < batch * 70 * 61 * 70 * 4 < apart.report().arena_bytes
    assert any(name.endswith("panels") for name, _count in fused.report().kernels)
    torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fused(x), apart(x), rtol=0, atol=1e-6)


def test_one_program_serves_every_batch():
    model = Block().eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    program = engine.compile(model, (torch.randn(2, 5, 70, 61),), dynamic_shapes=({0: batch},))
    for n in (1, 2, 5):
        x = torch.randn(n, 5, 70, 61)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
    assert any(name.endswith("panels") for name, _count in program.report().kernels)


def test_it_comes_behind_the_layout():
    assert PIPELINE.index("channels_last") < PIPELINE.index("fuse_expand_depthwise")
