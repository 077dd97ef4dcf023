"""Convolutions by Winograd: which kernel is chosen where, asking for one is obeyed, weights stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.config import Config
from engine.errors import ConfigError
from engine.graph import Graph
from engine.ops import TensorType
from engine.targets.cpu import CPU, native
from tests import messages

SPATIAL = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1), "channels_last": True}


def chosen(x: tuple[int, int, int, int], channels: int, **changed) -> str:
    """Variant of the kernel that runs a 3 x 3 convolution of `x` [N, H, W, C] where nothing is asked for."""
    g = Graph()
    value = g.add_input("x", TensorType("float32", x))
    weight = g.constant(np.zeros((channels, x[3], 3, 3), np.float32), "weight")
    g.outputs = [g.emit("conv", [value, weight, None, None], **{**SPATIAL, **changed})]
    (step,) = CPU.bind(g, Config()).steps
    return step.kernel.variant


@pytest.mark.parametrize(
    ("x", "channels", "variant"),
    [
        ((1, 56, 56, 64), 64, "winograd4"),
        ((1, 14, 14, 256), 256, "winograd4"),
        ((1, 7, 7, 512), 512, "winograd2"),  # four tiles would wait for 36 x 512 x 512 weights
        ((4, 7, 7, 512), 512, "winograd4"),
        ((1, 32, 32, 3), 64, "direct"),  # three channels do not pay for the transforms
        ((1, 2, 2, 64), 64, "direct"),
    ],
)
def test_the_cheapest_sum_is_chosen(x, channels, variant):
    assert chosen(x, channels) == variant


@pytest.mark.parametrize("changed", [{"stride": (2, 2)}, {"stride": (1, 2)}, {"dilation": (2, 1)}])
def test_only_three_by_three_in_steps_of_one_is_transformed(changed):
    assert chosen((1, 56, 56, 64), 64, **changed) == "direct"


class Net(nn.Module):
    """Two convolutions with all that is fused behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, padding=1)
        self.second = nn.Conv2d(40, 40, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).relu()
        return (self.second(y) + y).relu()


def test_every_variant_computes_the_same():
    torch.manual_seed(1)
    model, x = Net().eval(), torch.randn(2, 3, 17, 22)
    expected = model.double()(x.double()).detach()
    model.float()
    isa = native.kernel_isas("f32")[-1]
    for variant in ("direct", "winograd2", "winograd4"):
        compiled = engine.compile(model, (x,), config=Config(variant={"conv": variant}))
        kernels = [name for name, _ in compiled.report().kernels if "_conv_" in name]
        assert kernels == [f"f32_conv__{isa}_{variant}"]
        torch.testing.assert_close(compiled(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_asking_where_no_convolution_fits_is_refused():
    model, x = nn.Conv2d(3, 8, 3, stride=2), torch.randn(1, 3, 9, 9)
    with messages.raises(ConfigError):
        engine.compile(model.eval(), (x,), config=Config(variant={"conv": "winograd4"}))


@pytest.mark.filterwarnings("ignore::engine.StaleWeightsWarning")  # the test is about weights that change
def test_weights_are_kept_beside_their_transforms(tmp_path):
    """A transform cannot be undone to the bit: what is saved, and what reads the constants later, are the weights."""
    torch.manual_seed(2)
    model, x = Net().eval(), torch.randn(1, 3, 24, 24)
    before = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
    compiled = engine.compile(model, (x,), config=Config(variant={"conv": "winograd4"}))
    expected = compiled(x)
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    kept = {value.elements.tobytes() for value in compiled.graph.stored_constants()}
    assert {array.tobytes() for array in before.values()} <= kept
    compiled.save(tmp_path / "net.engine")
    loaded = engine.load(tmp_path / "net.engine", config=Config(variant={"conv": "winograd4"}))
    assert torch.equal(compiled(x), expected)
    np.testing.assert_array_equal(np.asarray(loaded(x.numpy())), expected.numpy())


def test_a_profile_counts_what_is_executed():
    model, x = Net().eval(), torch.randn(1, 3, 24, 24)
    profiles = {
        v: engine.compile(model, (x,), config=Config(variant={"conv": v})).profile(x, runs=1, roofs=False)
        for v in ("direct", "winograd2", "winograd4")
    }
    meant, *others = ([n.flops for n in p.nodes if n.op == "conv"] for p in profiles.values())
    assert all(flops == meant for flops in others)
    executed = {v: sum(n.executed_flops for n in p.nodes if n.op == "conv") for v, p in profiles.items()}
    assert executed["direct"] == sum(meant)
    # 36 tiles of 36 products against 576 places of nine, and the transforms beside them.
    assert executed["direct"] / 4 < executed["winograd4"] < executed["winograd2"] < executed["direct"]
