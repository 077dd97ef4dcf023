"""`cifar10-cnn`: a small network of 3x3 convolutions with weights trained on CIFAR-10."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites import data
from suites.models._pictures import uniform
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

NAME = "cifar10-cnn"
SIZE = 32  # the only one: the last convolution leaves one element


def _make(_arguments: Arguments) -> nn.Module:
    from suites.models.nets.vgg import SmallVgg

    model = SmallVgg((64, 64, 128, 128, 64, 64), (1024, 512), 10)
    model.load(data.path(NAME, "cifar_10_model", "trained_models", "cnn_model.h5"))
    return model


def _make_tiny(_arguments: Arguments) -> nn.Module:
    from suites.models.nets.vgg import SmallVgg

    return SmallVgg((4, 4, 6, 6, 4, 4), (12, 8), 10)


_example = uniform(0.0, 255.0, SIZE)

MODELS = (
    ModelSpec(
        name=NAME,
        summary="VGG-like network for CIFAR-10 with real weights; random pixels",
        make=_make,
        example=_example,
        shape_keys={"batch": 1},
        needs=("torch", "h5py"),
        missing=lambda: data.missing(NAME),
    ),
    ModelSpec(
        name=f"{NAME}-tiny",
        summary="the same network, narrow, for tests; random weights",
        make=_make_tiny,
        example=_example,
        shape_keys={"batch": 1},
    ),
)
