"""Images with their channels last: who takes part, where permutes stay, and what almost fits and must not change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

PLAIN = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1)}
POOL = {"kernel": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0)}


def start(*shapes: tuple[int, ...]) -> Graph:
    g = Graph()
    for number, shape in enumerate(shapes):
        g.add_input(f"x{number}", TensorType("float32", shape))
    return g


def known(g: Graph, *shape: int) -> Value:
    return g.constant(np.random.default_rng(shape).standard_normal(shape).astype(np.float32), "known")


def conv(g: Graph, x: Value, weight: Value | None = None, residual: Value | None = None, **changed) -> Value:
    weight = known(g, 6, x.shape[1], 3, 3) if weight is None else weight
    return g.emit("conv", [x, weight, known(g, weight.shape[0]), residual], **{**PLAIN, **changed})


def conv_of_rank(g: Graph, x: Value, weight: Value, **changed) -> Value:
    """Over as many axes as x has, each padded by one."""
    lists = {name: numbers[:1] * (len(x.shape) - 2) for name, numbers in PLAIN.items()}
    return g.emit("conv", [x, weight, None, None], **{**lists, **changed})


def permutes(g: Graph) -> int:
    """How many permutes somebody reads."""
    run_pass(g, "dead_code")
    return ops(g).count("permute")


def test_images_are_turned_at_the_borders_alone():
    g = start((2, 4, 8, 8), (2, 6, 8, 8))
    y = g.emit("relu", [conv(g, g.inputs[0])])
    y = conv(g, y, residual=g.inputs[1], activation="relu")
    y = g.emit("max_pool", [y], **POOL, dilation=(1, 1))
    y = g.emit("mul", [y, g.emit("sigmoid", [y])])
    y = g.emit("mul", [y, g.scalar(2.0, "float32")])
    g.outputs = [g.emit("avg_pool", [conv(g, y)], **POOL)]
    assert run_pass(g, "channels_last") == [9]
    assert permutes(g) == 3, "both inputs and the output"
    assert all(n.attributes["channels_last"] for n in g.nodes if n.op.name in ("conv", "max_pool", "avg_pool"))


@pytest.mark.parametrize(
    ("to", "is_read", "first"),
    [
        ("float32", False, "permute"),
        ("float32", True, "cast"),
        ("bool", False, "cast"),
    ],
)
def test_a_cast_to_a_wider_type_crosses_a_permute_for_convolutions_alone(to, is_read, first):
    g = Graph()
    x = g.add_input("x", TensorType("uint8", (1, 6, 7, 3)))
    y = g.emit("cast", [g.emit("permute", [x], axes_order=(0, 3, 1, 2))], dtype=to)
    g.outputs = [conv(g, y) if is_read else y]
    run_pass(g, "channels_last")
    run_pass(g, "dead_code")
    assert ops(g)[0] == first


def test_a_kernel_of_one_place_is_a_linear_over_channels():
    g = start((2, 4, 5, 6), (2, 6, 5, 6))
    g.outputs = [conv(g, g.inputs[0], known(g, 6, 4, 1, 1), g.inputs[1], low=(0, 0), high=(0, 0), activation="relu")]
    assert run_pass(g, "channels_last") == [1]
    assert ops(g) == ["permute", "permute", "linear", "permute"]


@pytest.mark.parametrize("changed", [{"stride": (2, 2), "low": (0, 0), "high": (0, 0)}, {}])
def test_a_kernel_of_one_place_that_strides_or_pads_stays_a_convolution(changed):
    g = start((2, 4, 5, 6))
    g.outputs = [conv(g, g.inputs[0], known(g, 6, 4, 1, 1), **changed)]
    assert run_pass(g, "channels_last") == [1]
    assert ops(g) == ["permute", "conv", "permute"]


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("out", "groups"), [(6, 6), (12, 6), (4, 2)])
def test_groups_of_channels_stay_a_convolution(kernel, out, groups):
    g = start((2, 6, 5, 6))
    weight = known(g, out, 6 // groups, kernel, kernel)
    g.outputs = [conv(g, g.inputs[0], weight, low=(0, 0), high=(0, 0), groups=groups)]
    assert run_pass(g, "channels_last") == [1]
    assert ops(g) == ["permute", "conv", "permute"]


@pytest.mark.parametrize("axes", [1, 3])
def test_convolutions_along_other_axes_are_turned_too(axes):
    g = start((2, 4, *[5, 6, 7][:axes]))
    y = g.emit("relu", [conv_of_rank(g, g.inputs[0], known(g, 6, 4, *[3] * axes))])
    y = g.emit("concat", [y, conv_of_rank(g, y, known(g, 5, 6, *[3] * axes))], axis=1)
    g.outputs = [g.emit("mean", [y], axes=tuple(range(2, 2 + axes)), keepdims=False)]
    assert run_pass(g, "channels_last") == [5]
    assert permutes(g) == 1, "the input"
    assert g.outputs[0].shape == (2, 11)


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize(("weight", "groups"), [((6, 2), 2), ((4, 1), 4), ((8, 1), 4)])
def test_groups_along_other_axes_are_turned_too(axes, weight, groups):
    g = start((2, 4, *[9, 4, 5][:axes]))
    g.outputs = [conv_of_rank(g, g.inputs[0], known(g, *weight, *[3] * axes), groups=groups)]
    assert run_pass(g, "channels_last") == [1]
    assert ops(g) == ["permute", "conv", "permute"]


def pools(g: Graph, axes: int) -> Value:
    """max_pool, relu and avg_pool of the first input of `g`."""
    window = {name: numbers[:1] * axes for name, numbers in POOL.items()}
    y = g.emit("relu", [g.emit("max_pool", [g.inputs[0]], **window, dilation=(1,) * axes)])
    return g.emit("avg_pool", [y], **window)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pools_without_a_convolution_keep_their_channels_first(axes):
    g = start((2, 4, *[9, 8, 5][:axes]))
    g.outputs = [pools(g, axes)]
    assert run_pass(g, "channels_last") == [0]


@pytest.mark.parametrize("axes", [1, 3])
def test_pools_before_a_convolution_are_turned_along_other_axes_too(axes):
    g = start((2, 4, *[9, 8, 9][:axes]))
    y = pools(g, axes)
    g.outputs = [conv_of_rank(g, y, known(g, 6, 4, *[3] * axes))]
    assert run_pass(g, "channels_last") == [4]
    assert permutes(g) == 2, "the input and the output"
    assert ops(g)[1:-1] == ["max_pool", "relu", "avg_pool", "conv"]


@pytest.mark.parametrize("behind", [True, False])
def test_norms_of_groups_are_turned_beside_convolutions(behind):
    g = start((2, 4, 9, 8))
    y = g.inputs[0] if behind else conv(g, g.inputs[0])
    y = g.emit("silu", [g.emit("group_norm", [y, known(g, y.shape[1]), None], groups=2, epsilon=0.1)])
    g.outputs = [conv(g, y) if behind else y]
    assert run_pass(g, "channels_last") == [3]
    assert permutes(g) == 2, "the input and the output"
    assert next(n for n in g.nodes if n.op.name == "group_norm").attributes["channels_last"]


def test_a_norm_of_groups_alone_keeps_its_channels_first():
    g = start((2, 4, 9, 8))
    g.outputs = [g.emit("group_norm", [g.inputs[0], None, None], groups=2, epsilon=0.1)]
    assert run_pass(g, "channels_last") == [0]


def test_a_convolution_by_a_weight_that_is_no_constant_turns_no_pool():
    g = start((2, 4, 8, 8), (6, 4, 3, 3))
    g.outputs = [conv_of_rank(g, pools(g, 2), g.inputs[1])]
    assert run_pass(g, "channels_last") == [0]


@pytest.mark.parametrize("axes", [1, 3])
def test_networks_along_other_axes_have_vector_kernels(axes):
    torch.manual_seed(0)
    conv, most, mean = (getattr(nn, f"{name}{axes}d") for name in ("Conv", "MaxPool", "AvgPool"))
    alone, two = conv(6, 18, 3, padding=1, groups=6), conv(18, 20, 3, padding=1, groups=2)
    body = [alone, most(3, 2, 1), two, nn.ReLU(), mean(2)]
    model, x = nn.Sequential(*body).eval(), torch.randn(2, 6, *[13, 9, 10][:axes])
    program = engine.compile(model, (x,))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().copies == 2
    assert not any("reference" in name for name, _count in program.report().kernels)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("op", ["sum", "mean", "amax", "amin"])
def test_rows_and_columns_are_reduced_as_they_lie(op, keepdims):
    g = start((2, 4, 5, 6))
    g.outputs = [g.emit(op, [conv(g, g.inputs[0])], axes=(2, 3), keepdims=keepdims)]
    assert run_pass(g, "channels_last") == [2]
    assert permutes(g) == 1 + keepdims


def test_joined_channels_are_joined_on_the_last_axis():
    g = start((2, 4, 5, 6))
    y = conv(g, g.inputs[0])
    g.outputs = [g.emit("concat", [y, conv(g, y)], axis=1)]
    assert run_pass(g, "channels_last") == [3]
    assert permutes(g) == 2
    assert [n.attributes["axis"] for n in g.nodes if n.op.name == "concat"] == [3]


def test_images_are_padded_and_interpolated_as_they_lie():
    g = start((2, 4, 5, 6))
    y = g.emit("pad", [conv(g, g.inputs[0])], low=(0, 1, 2, 3), high=(0, 2, 0, 1), mode="reflect")
    y = g.emit("index_select", [y, g.constant(np.array([0, 0, 3, 2]), "places")], axis=2)
    taps = g.constant(np.array([[0, 1], [1, 2], [2, 3]]), "taps")
    g.outputs = [g.emit("resample", [y, taps, known(g, 3, 2)], axis=3)]
    assert run_pass(g, "channels_last") == [4]
    assert permutes(g) == 2, "input and output"
    padded, chosen, turned = (n for n in g.nodes if n.op.name in ("pad", "index_select", "resample"))
    assert padded.attributes["low"] == (0, 2, 3, 1)
    assert padded.attributes["high"] == (0, 0, 1, 2)
    assert (chosen.attributes["axis"], turned.attributes["axis"]) == (1, 2)
    assert g.outputs[0].shape == (2, 9, 4, 3)


def repeated(g: Graph, x: Value, narrow: tuple[int, ...], wide: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    y = g.emit("expand", [g.emit("reshape", [x], shape=narrow)], shape=wide)
    return g.emit("reshape", [y], shape=shape)


def test_places_are_repeated_as_they_lie():
    g = start((2, 4, 5, 3))
    y = conv(g, g.inputs[0])
    g.outputs = [repeated(g, y, (2, 6, 5, 1, 3), (2, 6, 5, 2, 3), (2, 6, 10, 3))]
    assert run_pass(g, "channels_last") == [2]
    assert permutes(g) == 2, "input and output"
    assert [n.output.shape for n in g.nodes if n.op.name == "expand"] == [(2, 5, 2, 3, 6)]


@pytest.mark.parametrize(
    ("narrow", "wide", "shape"),
    [
        ((2, 6, 1, 5, 3), (2, 6, 2, 5, 3), (2, 12, 5, 3)),  # channels are repeated
        ((2, 6, 1, 5, 3), (2, 6, 2, 5, 3), (2, 6, 10, 3)),  # the picture is, not its lines
        ((2, 6, 15, 1), (2, 6, 15, 2), (2, 6, 10, 3)),  # another picture altogether
        ((2, 6, 5, 3, 1), (2, 6, 5, 3, 2), (2, 6, 5, 2, 3)),
    ],
)
def test_what_is_repeated_otherwise_keeps_the_order_of_the_model(narrow, wide, shape):
    g = start((2, 4, 5, 3))
    g.outputs = [repeated(g, conv(g, g.inputs[0]), narrow, wide, shape)]
    assert run_pass(g, "channels_last") == [1]


@pytest.mark.parametrize("shape", [(2, 6, 1, 1), (6, 1, 1), (5, 1), (6,)])
def test_what_is_broadcast_is_turned_with_the_image(shape):
    g = start((2, 4, 5, 6), shape)
    g.outputs = [g.emit("mul", [conv(g, g.inputs[0]), g.inputs[1]])]
    assert run_pass(g, "channels_last") == [2]


def almost() -> dict[str, Graph]:
    """Graphs of which nothing but the first convolution, if that, may change."""
    made: dict[str, Graph] = {}
    g = made["weight that is not known"] = start((2, 4, 5, 6), (6, 4, 3, 3))
    g.outputs = [conv(g, g.inputs[0], g.inputs[1])]
    g = made["transposed weight that is not known"] = start((2, 4, 5, 6), (4, 6, 3, 3))
    g.outputs = [g.emit("conv_transpose", [*g.inputs, None, None], **PLAIN)]
    g = made["a transposed matrix"] = start((2, 6, 4))
    turned = g.emit("permute", [g.inputs[0]], axes_order=(0, 2, 1))
    g.outputs = [g.emit("relu", [turned])]
    g = made["no image"] = start((2, 4, 5, 6))
    g.outputs = [g.emit("relu", [g.inputs[0]])]
    return made


@pytest.mark.parametrize("what", almost())
def test_what_almost_fits_stays(what):
    g = almost()[what]
    assert run_pass(g, "channels_last") == [0]


def almost_after_a_convolution() -> dict[str, Graph]:
    made: dict[str, Graph] = {}
    g = made["an image of the model's order"] = start((2, 4, 5, 6), (2, 6, 5, 6))
    g.outputs = [g.emit("add", [conv(g, g.inputs[0]), g.inputs[1]])]
    g = made["a sum over channels that drops them"] = start((2, 4, 5, 6))
    g.outputs = [g.emit("sum", [conv(g, g.inputs[0])], axes=(1,), keepdims=False)]
    g = made["a join with an image of the model's order"] = start((2, 4, 5, 6), (2, 6, 5, 6))
    g.outputs = [g.emit("concat", [conv(g, g.inputs[0]), g.inputs[1]], axis=1)]
    return made


@pytest.mark.parametrize("what", almost_after_a_convolution())
def test_who_needs_the_order_of_the_model_gets_it(what):
    g = almost_after_a_convolution()[what]
    assert run_pass(g, "channels_last") == [1]


class Net(nn.Module):
    """A residual block, a squeezed factor a channel, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 20, 7, 2, 3), nn.BatchNorm2d(20), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.one, self.two = nn.Conv2d(20, 20, 3, padding=1), nn.Conv2d(20, 20, 1)
        self.alone, self.four = nn.Conv2d(20, 20, 5, 2, 2, groups=20), nn.Conv2d(20, 20, 3, groups=5)
        self.head = nn.Linear(20, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.four(nn.functional.relu6(self.alone(torch.relu(self.one(x) + x))))
        x = x * torch.sigmoid(self.two(x.mean((2, 3), keepdim=True)))
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("isa", [None, "generic"])
def test_a_network_computes_what_it_did_with_one_copy(isa):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 40, 33)
    program = engine.compile(model, (x,), engine.Config(isa=isa))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().copies == 1, "the input is turned, nothing else"
    assert {"direct", "depthwise", "grouped"} <= {name.rpartition("_")[2] for name, _count in program.report().kernels}
    plain = engine.compile(model, (x,), engine.Config(isa=isa, disable=("channels_last",)))
    torch.testing.assert_close(plain(x), program(x), rtol=1e-4, atol=1e-5)
    assert not any("direct" in name for name, _count in plain.report().kernels)


@pytest.mark.parametrize("isa", [None, pytest.param("generic", marks=pytest.mark.long)])
@pytest.mark.parametrize("axes", [1, 3])
def test_a_network_along_other_axes_computes_what_it_did(axes, isa):
    torch.manual_seed(0)
    make, norm = {1: (nn.Conv1d, nn.BatchNorm1d), 3: (nn.Conv3d, nn.BatchNorm3d)}[axes]
    body = [
        make(3, 20, 5, 2, 2),
        norm(20),
        nn.ReLU(),
        make(20, 36, 3, padding=1, dilation=1),
        nn.GELU(),
        make(36, 7, 1),
    ]
    model, x = nn.Sequential(*body).eval(), torch.randn(2, 3, *[33, 14, 15][:axes])
    program = engine.compile(model, (x,), engine.Config(isa=isa))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().copies == 2, "input and output are turned, nothing else"
    assert any(name.endswith("_direct") for name, _count in program.report().kernels)


@pytest.mark.parametrize("isa", [None, pytest.param("generic", marks=pytest.mark.long)])
@pytest.mark.parametrize("axes", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)])
def test_a_decoder_computes_what_it_did(axes, isa):
    torch.manual_seed(0)
    make, norm = getattr(nn, f"ConvTranspose{axes}d"), getattr(nn, f"BatchNorm{axes}d")
    body = [
        make(8, 40, 4, 2, 1, bias=False),
        norm(40),
        nn.ReLU(),
        make(40, 12, 3, 2, 1, output_padding=1, groups=4),
        nn.GELU(),
        make(12, 5, 2, 2),
        nn.Tanh(),
    ]
    model, x = nn.Sequential(*body).eval(), torch.randn(2, 8, *[7, 5, 3][:axes])
    program = engine.compile(model, (x,), engine.Config(isa=isa))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().launches == 5, "three convolutions; input and output are turned"
    assert any(name.endswith("_phases") for name, _count in program.report().kernels)


@pytest.mark.parametrize("isa", [None, "generic"])
def test_a_network_of_separable_signals_computes_what_it_did(isa):
    torch.manual_seed(0)
    body = [
        nn.Conv1d(3, 20, 5, 2, 2),
        nn.Conv1d(20, 20, 7, padding=3, groups=20),
        nn.SiLU(),
        nn.Conv1d(20, 40, 3, padding=2, dilation=2, groups=5),
        nn.ReLU6(),
        nn.Conv1d(40, 80, 3, groups=40),
    ]
    model, x = nn.Sequential(*body).eval(), torch.randn(2, 3, 61)
    program = engine.compile(model, (x,), engine.Config(isa=isa))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().copies == 2
    assert {"direct", "depthwise", "grouped"} <= {name.rpartition("_")[2] for name, _count in program.report().kernels}


@pytest.mark.parametrize(
    ("padding", "mode"),
    [
        pytest.param(padding, mode, marks=() if number % 4 == 0 else pytest.mark.long)
        for number, (padding, mode) in enumerate(
            itertools.product(("reflect", "replicate", "circular"), ("nearest", "bilinear", "bicubic"))
        )
    ],
)
def test_an_upsampling_network_turns_its_input_and_output_alone(mode, padding):
    torch.manual_seed(0)
    body = [
        nn.Conv2d(3, 20, 3, padding=1),
        nn.Upsample(scale_factor=2, mode=mode, align_corners=None if mode == "nearest" else True),
        nn.Conv2d(20, 7, 3, padding=2, padding_mode=padding),
    ]
    model, x = nn.Sequential(*body).eval(), torch.randn(2, 3, 9, 8)
    program = engine.compile(model, (x,))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    assert program.report().copies == 2 + (mode == "nearest"), "to repeat places is a copy by itself"
    assert not any("reference" in name for name, _count in program.report().kernels)


@pytest.mark.parametrize("pool", [nn.AvgPool2d(5), nn.AdaptiveAvgPool2d(1), nn.MaxPool2d(5)])
def test_a_pooled_image_of_one_place_goes_into_a_linear_without_a_copy(pool):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3), pool, nn.Flatten(), nn.Linear(8, 4)).eval(), torch.randn(2, 3, 7, 7)
    program = engine.compile(model, (x,))
    assert program.report().copies == 1, "the input is turned, nothing else"
    torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
