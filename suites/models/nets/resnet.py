"""Residual networks: transformers' ResNet behind a plain tensor, and the first ResNet-50 with its published weights.

The two are not one: transformers' has the stride of a bottleneck on the 3x3 convolution (v1.5), the published weights
belong to the network of the paper (He et al. 2015), which has it on the first 1x1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from suites.models.nets._hub import offline

# Of the channels blue, green, red over ImageNet: what the published weights expect to be subtracted.
MEAN_BGR = (103.939, 116.779, 123.68)


def statistics_of(norm: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Running mean and variance, [C] each; ValueError where the norm keeps none."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError(f"{norm} keeps no statistics")
    return norm.running_mean, norm.running_var


def draw_statistics(model: nn.Module) -> None:
    """Other than neutral statistics and weights for every batch norm, as a trained network has them.

    Weights below 1 keep the sums of many residual blocks in range.
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            mean, variance = statistics_of(module)
            nn.init.uniform_(module.weight, 0.2, 0.8)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(mean, std=0.1)
            nn.init.uniform_(variance, 0.5, 1.5)


class ResNet(nn.Module):
    """Pictures [N, 3, H, W] -> logits [N, labels]."""

    def __init__(self, config: Mapping[str, Any], labels: int) -> None:
        super().__init__()
        with offline():
            from transformers import ResNetConfig, ResNetForImageClassification

            self.network = ResNetForImageClassification(ResNetConfig(**{**config, "num_labels": labels}))
        draw_statistics(self)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.network(pixel_values=pixels).logits


class Convolution(nn.Module):
    """A convolution without bias and its batch norm."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    """1x1 (with the stride), 3x3, 1x1, beside the input itself or a 1x1 of it."""

    def __init__(self, channels: int, width: int, stride: int, *, projected: bool) -> None:
        super().__init__()
        out = 4 * width
        self.a = Convolution(channels, width, 1, stride)
        self.b = Convolution(width, width, 3)
        self.c = Convolution(width, out, 1)
        self.shortcut = Convolution(channels, out, 1, stride) if projected else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.shortcut(x))


class ResNetV1(nn.Module):
    """Pictures [N, 3, H, W], channels BGR less `MEAN_BGR` -> logits [N, labels]."""

    def __init__(self, stem: int, widths: Sequence[int], depths: Sequence[int], labels: int) -> None:
        super().__init__()
        self.stem = Convolution(3, stem, 7, 2)
        self.blocks = nn.ModuleDict()
        channels = stem
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True), 2):
            for block in range(depth):
                stride = 2 if block == 0 and stage > 2 else 1
                name = f"{stage}{'abcdef'[block]}"
                self.blocks[name] = Bottleneck(channels, width, stride, projected=block == 0)
                channels = 4 * width
        self.head = nn.Linear(channels, labels)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.stem(pixels)), 3, 2, 1)
        for block in self.blocks.values():
            x = block(x)
        return self.head(x.mean((2, 3)))

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Take the published weights: kernels are [H, W, in, out] there, and a bias before a norm moves its mean."""
        _take(self.stem, weights, "conv1", "bn_conv1")
        for name, block in self.blocks.items():
            for branch, part in (("2a", block.a), ("2b", block.b), ("2c", block.c), ("1", block.shortcut)):
                if isinstance(part, Convolution):
                    _take(part, weights, f"res{name}_branch{branch}", f"bn{name}_branch{branch}")
        _set(self.head.weight, weights["fc1000/kernel"].T)
        _set(self.head.bias, weights["fc1000/bias"])


def _set(target: torch.Tensor, values: np.ndarray) -> None:
    with torch.no_grad():
        target.copy_(torch.from_numpy(np.array(values)))


def _take(part: Convolution, weights: Mapping[str, np.ndarray], conv: str, norm: str) -> None:
    mean, variance = statistics_of(part.norm)
    _set(part.conv.weight, weights[f"{conv}/kernel"].transpose(3, 2, 0, 1))
    _set(part.norm.weight, weights[f"{norm}/gamma"])
    _set(part.norm.bias, weights[f"{norm}/beta"])
    _set(mean, weights[f"{norm}/moving_mean"] - weights[f"{conv}/bias"])
    _set(variance, weights[f"{norm}/moving_variance"])


def bgr(pictures: np.ndarray) -> torch.Tensor:
    """[N, H, W, 3] uint8 RGB -> what `ResNetV1`'s published weights expect, [N, 3, H, W] float32."""
    centred = pictures[..., ::-1].astype(np.float32) - np.array(MEAN_BGR, np.float32)
    return torch.from_numpy(np.ascontiguousarray(centred.transpose(0, 3, 1, 2)))
