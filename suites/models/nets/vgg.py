"""A small network of 3x3 convolutions, each followed by ReLU and then by batch norm, and a head of three layers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from suites.models.nets.resnet import draw_statistics


class SmallVgg(nn.Module):
    """Pictures [N, 3, 32, 32] of numbers from 0 to 255 -> scores [N, classes], 0 or more.

    Convolutions come in pairs and pad nothing: 32, 30, 28, halved to 14, 12, 10, halved to 5, 3, 1.
    """

    def __init__(self, channels: Sequence[int], widths: Sequence[int], classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3) for i, o in itertools.pairwise((3, *channels)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(o, eps=1e-3) for o in channels)
        sizes = (channels[-1], *widths, classes)
        self.dense = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        draw_statistics(self)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = pixels
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(torch.relu(conv(x)))
            if i in (1, 3):
                x = nn.functional.max_pool2d(x, 2)
        x = x.flatten(1)
        for layer in self.dense:  # the last one has a ReLU too: so it was trained
            x = torch.relu(layer(x))
        return x

    def load(self, file: Path) -> None:
        """Take the weights of a Keras file in HDF5: kernels [H, W, in, out], matrices [in, out]."""
        import h5py

        with h5py.File(file) as opened:
            weights = {
                f"{layer}/{name.partition(':')[0]}": np.asarray(values)
                for layer, held in opened["model_weights"].items()
                for name, values in held.get(layer, {}).items()
            }
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            end = f"_{i}" if i else ""
            _put(conv, weights, f"conv2d{end}", {"weight": "kernel", "bias": "bias"})
            _put(norm, weights, f"batch_normalization{end}", _NORM)
        for i, layer in enumerate(self.dense):
            _put(layer, weights, f"dense_{i}" if i else "dense", {"weight": "kernel", "bias": "bias"})


_NORM = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
_ORDERS = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}  # of the axes, by rank


def _put(module: nn.Module, weights: Mapping[str, np.ndarray], layer: str, names: Mapping[str, str]) -> None:
    """Copy weights of a Keras layer: our name -> its name."""
    for ours, theirs in names.items():
        values = weights[f"{layer}/{theirs}"]
        with torch.no_grad():
            getattr(module, ours).copy_(torch.from_numpy(values.transpose(_ORDERS[values.ndim]).copy()))
