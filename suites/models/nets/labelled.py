"""Labelled pictures as networks with real weights expect them. Knows no backend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from suites import data
from suites.data import images
from suites.models.nets.efficientnet import scaled
from suites.models.nets.resnet import bgr

CIFAR_PICTURES = 300  # of ten thousand: what eager classifies in a second


def _resnet50() -> tuple[torch.Tensor, np.ndarray]:
    pictures, classes = images.imagenet20()
    return bgr(pictures), classes


def _efficientnet() -> tuple[torch.Tensor, np.ndarray]:
    pictures, classes = images.imagenet20(bicubic=True)
    return scaled(pictures), classes


def _cifar() -> tuple[torch.Tensor, np.ndarray]:
    pictures, classes = images.cifar10(CIFAR_PICTURES)
    return torch.from_numpy(pictures.astype(np.float32).transpose(0, 3, 1, 2).copy()), classes


# Model -> the source of its pictures, and how they are read.
LABELLED: dict[str, tuple[str, Callable[[], tuple[torch.Tensor, np.ndarray]]]] = {
    "resnet50-imagenet": ("imagenet20", _resnet50),
    "efficientnet-lite0": ("imagenet20", _efficientnet),
    "cifar10-cnn": ("cifar10", _cifar),
}


def lacks(model: str) -> str | None:
    """Why there are no pictures for a model of LABELLED, or None."""
    return data.missing(LABELLED[model][0])


def labelled(model: str) -> tuple[torch.Tensor, np.ndarray]:
    """(pictures [N, 3, H, W] float32, scaled as the weights expect, classes [N] int64) for a model of LABELLED.

    Raises:
        DataError: they were not fetched.
    """
    return LABELLED[model][1]()
