"""Zeros around images taken into convolutions and mean pooling, or not made; for each guard what almost matches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

AXES = (0, 0)
PLAIN = {"stride": (1, 2), "low": (0, 1), "high": (1, 0), "dilation": (1, 1)}
POOL = {"kernel": (3, 3), "stride": (2, 2), "low": (0, 0), "high": (0, 0)}


def start() -> Graph:
    g = Graph()
    g.add_input("x", TensorType("float32", (2, 4, 7, 8)))
    return g


def padded(g: Graph, x: Value, **changed) -> Value:
    how = {"low": (*AXES, 1, 0), "high": (*AXES, 2, 1), "mode": "constant", "value": 0.0}
    return g.emit("pad", [x], **{**how, **changed})


def conv(g: Graph, x: Value, **changed) -> Value:
    shape = (6, x.shape[3 if changed.get("channels_last") else 1], 3, 3)
    weight = g.constant(np.random.default_rng(0).standard_normal(shape).astype(np.float32), "weight")
    return g.emit("conv", [x, weight, None, None], **{**PLAIN, **changed})


def pool(g: Graph, x: Value, **changed) -> Value:
    return g.emit("avg_pool", [x], **{**POOL, **changed})


def test_a_convolution_pads_beside_its_own_padding():
    g = start()
    g.outputs = [conv(g, padded(g, g.inputs[0]))]
    assert run_pass(g, "absorb_pad", "dead_code") == [1, 1]
    assert ops(g) == ["conv"]
    assert (g.nodes[0].attributes["low"], g.nodes[0].attributes["high"]) == ((1, 1), (3, 1))


def test_pads_one_after_another_are_added_up():
    g = start()
    g.outputs = [conv(g, padded(g, padded(g, g.inputs[0])))]
    assert run_pass(g, "absorb_pad", "dead_code") == [2, 2]


def test_a_pad_that_others_read_stays_for_them():
    g = start()
    x = padded(g, g.inputs[0])
    g.outputs = [conv(g, x), x]
    assert run_pass(g, "absorb_pad", "dead_code") == [1, 0]
    assert ops(g) == ["pad", "conv"]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"low": (0, 1), "high": (0, 1)},
        {"count_padding": False},
        {"divisor": 5},
        {"divisor": 5, "count_padding": False, "low": (1, 1)},
    ],
)
def test_a_mean_counts_the_zeros_that_it_takes_in(how):
    g = start()
    g.outputs = [pool(g, padded(g, g.inputs[0]), **how)]
    assert run_pass(g, "absorb_pad", "dead_code") == [1, 1]
    assert ops(g) == ["avg_pool"]


def almost() -> dict[str, Graph]:
    made: dict[str, Graph] = {}

    def add(name: str, make, **how) -> None:
        g = made[name] = start()
        g.outputs = [make(g, padded(g, g.inputs[0], **how))]

    add("ones", conv, value=1.0)
    add("a mirror", conv, mode="reflect", low=(*AXES, 1, 1), high=(*AXES, 1, 1))
    add("channels", conv, low=(0, 1, 0, 0))
    add("pictures", conv, high=(1, 0, 0, 0))
    add("channels of a mean", pool, low=(0, 1, 0, 0))
    add("the largest, which is no sum", lambda g, x: g.emit("max_pool", [x], **POOL, dilation=(1, 1)))
    add("windows past the end", lambda g, x: pool(g, x, ceil_mode=True))
    add("own padding that does not count", lambda g, x: pool(g, x, low=(1, 1), count_padding=False))
    add("windows of zeros alone", pool, high=(*AXES, 3, 0))
    add("channels last", lambda g, x: conv(g, x, channels_last=True))
    return made


@pytest.mark.parametrize("what", almost())
def test_what_almost_fits_stays(what):
    assert run_pass(almost()[what], "absorb_pad") == [0]


def test_a_network_that_pads_unevenly_computes_what_it_did():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool = nn.Conv2d(3, 8, 3, 2), nn.AvgPool2d(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(nn.functional.pad(x, (0, 1, 0, 1)))
            return self.pool(nn.functional.pad(y, (1, 0, 2, 1)))

    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 16, 15)
    program = engine.compile(model, (x,))
    assert dict(program.report().passes)["absorb_pad"] == 2
    torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


# --- slices of what padding has made ------------------------------------------------------------------------------


def cut(g: Graph, y: Value, axis: int, first: int = 0, last: int = 0, step: int = 1) -> Value:
    return g.emit("slice", [y], axis=axis, start=first, stop=y.shape[axis] - last, step=step)


WIDE = {"low": (2, 3), "high": (2, 3)}


def test_places_that_nobody_reads_are_not_padded_for():
    g = start()
    g.outputs = [cut(g, cut(g, conv(g, g.inputs[0], **WIDE), 2, 1, 2), 3, 1, 1)]  # columns are strided by 2
    assert run_pass(g, "absorb_pad") == [2]
    assert ops(g) == ["conv"]
    assert (g.nodes[0].attributes["low"], g.nodes[0].attributes["high"]) == ((1, 1), (0, 1))


def almost_cut() -> dict[str, Graph]:
    made: dict[str, Graph] = {}

    def add(name: str, make, *where, **how) -> None:
        g = made[name] = start()
        g.outputs = [cut(g, make(g, g.inputs[0], **{**WIDE, **how}), *where)]

    add("channels", conv, 1, 0, 2)
    add("pictures", conv, 0, 0, 1)
    add("every other place", conv, 2, 0, 1, 2)
    add("more than the padding", conv, 2, 3, 0)
    add("more than the padding behind, by the stride", conv, 3, 0, 2)
    add("channels last", conv, 2, 0, 1, channels_last=True)
    add("a mean", lambda g, x, **_how: pool(g, x, low=(1, 1), high=(1, 1)), 2, 1, 0)
    others = made["others read it"] = start()
    y = conv(others, others.inputs[0], **WIDE)
    others.outputs = [cut(others, y, 2, 0, 1), others.emit("relu", [y])]
    returned = made["it is returned"] = start()
    y = conv(returned, returned.inputs[0], **WIDE)
    returned.outputs = [cut(returned, y, 2, 0, 1), y]
    added = made["it has a residual"] = start()
    plain = conv(added, added.inputs[0], **WIDE)
    y = added.emit(
        "conv", {"x": added.inputs[0], "weight": plain.node["weight"], "residual": plain}, **plain.node.attributes
    )
    added.outputs = [cut(added, y, 2, 0, 1)]
    return made


@pytest.mark.parametrize("what", almost_cut())
def test_slices_that_almost_fit_stay(what):
    assert run_pass(almost_cut()[what], "absorb_pad") == [0]


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_causal_convolution_pads_in_front_alone(symbolic):
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(6, 6, 4, padding=3, groups=6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.silu(self.conv(x)[:, :, : x.shape[2]])

    torch.manual_seed(0)
    model, x = Causal().eval(), torch.randn(2, 6, 9)
    length = {"x": {2: torch.export.Dim("length", min=2, max=64)}} if symbolic else None
    program = engine.compile(model, (x,), dynamic_shapes=length)
    assert dict(program.report().passes)["absorb_pad"] == 1
    assert dict(program.report().passes)["fuse_epilogue"] == 1
    for given in (x, torch.randn(2, 6, 30)) if symbolic else (x,):
        torch.testing.assert_close(program(given), model(given), rtol=1e-5, atol=1e-5)
