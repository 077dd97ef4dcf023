"""Layers of convolution networks as users write them, compiled, on both targets, against eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import engine
from engine.errors import EngineError, UnsupportedOp
from engine.exporter import export_with_torch
from engine.targets.cpu import native
from tests import messages
from tests.modules import Function

IMAGES = {1: (2, 4, 9), 2: (2, 4, 7, 8), 3: (1, 4, 4, 5, 6)}
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _layers(axes: int) -> dict[str, nn.Module]:
    """One of each kind, with the keywords that change its road through the engine."""

    def layer(name: str, *args, **keywords) -> nn.Module:
        return getattr(nn, f"{name}{axes}d")(*args, **keywords)

    made = {
        "conv": layer("Conv", 4, 6, 3, stride=2, padding=1),
        "conv_dilated": layer("Conv", 4, 6, 2, dilation=2, bias=False),
        "conv_depthwise": layer("Conv", 4, 8, 3, groups=4, padding="same"),
        "conv_even_same": layer("Conv", 4, 3, 4, padding="same"),
        "conv_transpose": layer("ConvTranspose", 4, 6, 3, stride=2, padding=1, output_padding=1),
        "max_pool": layer("MaxPool", 3, 2, padding=1, ceil_mode=True),
        "avg_pool": layer("AvgPool", 3, 2, padding=1, count_include_pad=False),
        "adaptive_avg": layer("AdaptiveAvgPool", 3),
        "adaptive_avg_one": layer("AdaptiveAvgPool", 1),
        "adaptive_max": layer("AdaptiveMaxPool", 3),
        "batch_norm": layer("BatchNorm", 4),
        "instance_norm": layer("InstanceNorm", 4, affine=True),
        "group_norm": nn.GroupNorm(2, 4),
        "nearest": nn.Upsample(scale_factor=2, mode="nearest"),
        "nearest_exact": nn.Upsample(scale_factor=1.6, mode="nearest-exact"),
        "linear": nn.Upsample(scale_factor=2, mode=MODES[axes]),
        "linear_corners": nn.Upsample(size=5, mode=MODES[axes], align_corners=True),
        "area": nn.Upsample(size=4, mode="area"),
    }
    for mode in ("reflect", "replicate", "circular"):
        made[f"conv_{mode}"] = layer("Conv", 4, 6, 3, padding=1, padding_mode=mode)
    return made


PICTURES = {
    "bicubic": nn.Upsample(scale_factor=1.5, mode="bicubic"),
    "recomputed": Function(lambda x: functional.interpolate(x, scale_factor=1.3, recompute_scale_factor=True)),
    "pixel_shuffle": nn.PixelShuffle(2),
    "pixel_unshuffle": nn.Sequential(nn.ZeroPad2d((0, 0, 1, 0)), nn.PixelUnshuffle(2)),
    "channel_shuffle": nn.ChannelShuffle(2),
    "unfold": nn.Unfold(2),
    "relu6": nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU6()),
    "hard_swish": nn.Hardswish(),
    "power_pool": nn.LPPool2d(2, 2),
    "response_norm": nn.LocalResponseNorm(3),
    "cropped": nn.ZeroPad2d((-1, 1, 2, 0)),
    "dropped": nn.Dropout2d(),
    "max_pool_with_positions": Function(lambda x: functional.max_pool2d(x, 2, return_indices=True)[0]),
}
# Pictures have every kind; along one and three axes those whose kernels loop over the axes themselves.
WINDOWS = ("conv", "conv_dilated", "conv_transpose", "max_pool", "avg_pool", "conv_reflect", "linear")
CASES = [(f"{axes}d_{name}", _layers(axes)[name], IMAGES[axes]) for axes in (1, 3) for name in WINDOWS]
CASES += [(f"2d_{name}", layer, IMAGES[2]) for name, layer in _layers(2).items()]
CASES += [(f"2d_{name}", layer, IMAGES[2]) for name, layer in PICTURES.items()]


def _settled(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """In evaluation mode; norms with other than neutral weights and statistics."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.ndim == 1:
            tensor.data = torch.rand(tensor.shape, generator=generator) + (0.5 if "var" in name else -0.3)
    return model.eval()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")  # of eager's own copy
@pytest.mark.parametrize(("name", "layer", "shape"), CASES, ids=[c[0] for c in CASES])
def test_a_layer_computes_what_eager_does(name, layer, shape):
    generator = torch.Generator().manual_seed(3)
    model, x = _settled(layer, generator), torch.randn(shape, generator=generator)
    with torch.no_grad():
        expected = model(x)
    exported = export_with_torch(model, (x,)).program
    for target in ("cpu", "interpreter"):
        program = engine.compile(exported, (x,), engine.Config(target=target))
        # sums of a few dozen float32 products of numbers near 1
        torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5, msg=lambda m, e=target: f"{e}: {m}")


def test_upsampling_by_a_whole_number_is_views_and_one_copy():
    x = torch.randn(1, 3, 4, 5)
    report = engine.compile(nn.Upsample(scale_factor=3, mode="nearest").eval(), (x,)).report()
    assert report.launches == 1


def test_a_batch_norm_at_rest_costs_one_pass_over_its_input():
    x = torch.randn(2, 4, 5, 5)
    model = _settled(nn.BatchNorm2d(4), torch.Generator().manual_seed(3))
    assert engine.compile(model, (x,)).report().launches == 1


REFUSED = {
    "positions": lambda x: functional.max_pool2d(x, 2, return_indices=True)[1],
    "integers": lambda x: functional.conv2d(x.long(), torch.ones(2, 4, 1, 1).long()),
    "moving": lambda x: functional.instance_norm(x, torch.zeros(4) + x.sum(), torch.ones(4), use_input_stats=True),
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_lowered_is_refused_with_its_reason(function):
    with messages.raises(UnsupportedOp):
        engine.compile(Function(function).eval(), (torch.randn(IMAGES[2]),))


WRONG = {
    "kernel larger than the input": (nn.Conv2d(4, 2, 9), "Kernel size"),
    "other channels": (nn.Conv2d(3, 2, 3), "3 channels"),
    "pool larger than the input": (nn.MaxPool2d(9), "Output size is too small"),
    "padding past half of the window": (nn.MaxPool2d(2, padding=2), "half of effective kernel size"),
    "reflected past the input": (nn.ReflectionPad2d(8), "less than the corresponding input dimension"),
    "no channels": (Function(lambda x: functional.conv2d(x[:, :0], torch.ones(2, 0, 3, 3))), "channel"),
}


@pytest.mark.parametrize(("layer", "reason"), WRONG.values(), ids=WRONG)
def test_impossible_sizes_are_an_error_that_says_so(layer, reason):
    with pytest.raises(EngineError, match=reason):
        engine.compile(layer.eval(), (torch.randn(IMAGES[2]),))


@pytest.mark.parametrize("isa", native.kernel_isas())
def test_a_group_of_equal_elements_becomes_zeros(isa):
    first = nn.GroupNorm(4, 32)
    last = nn.Sequential(nn.Conv2d(32, 32, 1), nn.GroupNorm(32, 32), nn.Conv2d(32, 8, 1, bias=False))
    for model in (first, last):
        x = torch.full((1, 32, 20, 20), 1000.1)
        assert not engine.compile(model.eval(), (x,), config=engine.Config(isa=isa))(x).any()
