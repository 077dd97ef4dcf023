"""Residual networks whose 3x3 convolutions have groups of channels.

ResNeXt (Xie et al. 2017) and RegNet-Y (Radosavovic et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from suites.models.nets.resnet import draw_statistics


class Stage(NamedTuple):
    """Blocks of one width: how many, the stride of the first, channels within and of the result, groups."""

    repeats: int
    stride: int
    width: int
    channels: int
    groups: int


def _convolution(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out))


class Squeeze(nn.Module):
    """Scales each channel by a number between 0 and 1 that two layers compute from the means of all channels."""

    def __init__(self, channels: int, narrow: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, narrow, 1), nn.Conv2d(narrow, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))).sigmoid()


class Block(nn.Module):
    """1x1, 3x3 in groups (with the stride), 1x1, beside the input or a 1x1 of it.

    Where `narrow` is not 0, a squeeze to so many channels follows the groups.
    """

    def __init__(self, channels: int, stage: Stage, stride: int, narrow: int) -> None:
        super().__init__()
        self.a = _convolution(channels, stage.width, 1)
        self.b = _convolution(stage.width, stage.width, 3, stride, stage.groups)
        self.squeeze = Squeeze(stage.width, narrow) if narrow else nn.Identity()
        self.c = _convolution(stage.width, stage.channels, 1)
        is_same = stride == 1 and channels == stage.channels
        self.shortcut = nn.Identity() if is_same else _convolution(channels, stage.channels, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.squeeze(F.relu(self.b(F.relu(self.a(x)))))
        return F.relu(self.c(y) + self.shortcut(x))


class GroupedResNet(nn.Module):
    """Pictures [N, 3, H, W] -> logits [N, labels].

    Args:
        stem: channels and kernel of the first convolution; one of 7 x 7 is followed by a maximum of 3 x 3.
        stages: the blocks.
        squeezes: whether blocks squeeze to a quarter of the channels that they read.
        labels: number of logits.
    """

    def __init__(self, stem: tuple[int, int], stages: Sequence[Stage], labels: int, *, squeezes: bool) -> None:
        super().__init__()
        channels, kernel = stem
        self.stem, self.pools = _convolution(3, channels, kernel, 2), kernel == 7
        blocks = []
        for stage in stages:
            for repeat in range(stage.repeats):
                narrow = round(channels / 4) if squeezes else 0
                blocks.append(Block(channels, stage, 1 if repeat else stage.stride, narrow))
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, labels)
        draw_statistics(self)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(pixels))
        x = self.blocks(F.max_pool2d(x, 3, 2, 1) if self.pools else x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
