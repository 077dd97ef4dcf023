"""`resnet50-imagenet`: the ResNet-50 of the paper (v1: stride on the first 1x1) with weights trained on ImageNet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites import data
from suites.models._pictures import uniform
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

NAME = "resnet50-imagenet"


def _make(_arguments: Arguments) -> nn.Module:
    from suites.data import tfjs
    from suites.models.nets.resnet import ResNetV1

    model = ResNetV1(64, (64, 128, 256, 512), (3, 4, 6, 3), 1000)
    model.load(tfjs.read(data.path(NAME, "package", "ResNet50", "model.json")))
    return model


def _make_tiny(_arguments: Arguments) -> nn.Module:
    from suites.models.nets.resnet import ResNetV1, draw_statistics

    model = ResNetV1(8, (4, 8), (1, 2), 10)
    draw_statistics(model)
    return model


# The range of pixels less the mean of ImageNet.
_example = uniform(-123.68, 151.061)

MODELS = (
    ModelSpec(
        name=NAME,
        summary="ResNet-50 (v1) with real weights; random pixels",
        make=_make,
        example=_example,
        shape_keys={"batch": 1, "size": 224},
        limits={"size": (32, None)},
        missing=lambda: data.missing(NAME),
    ),
    ModelSpec(
        name=f"{NAME}-tiny",
        summary="the same kind of blocks, three narrow ones, for tests; random weights",
        make=_make_tiny,
        example=_example,
        shape_keys={"batch": 1, "size": 32},
        limits={"size": (32, None)},
    ),
)
