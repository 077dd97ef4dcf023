"""EfficientNet-Lite (Tan and Le 2019, without squeeze-and-excitation and with ReLU6): depthwise convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from suites.models.nets.resnet import draw_statistics


class Stage(NamedTuple):
    """Blocks of one kind: how many, the depthwise kernel and its stride in the first, the widening, the channels."""

    repeats: int
    kernel: int
    stride: int
    expand: int
    channels: int


LITE0 = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _same(x: torch.Tensor, kernel: int, stride: int) -> torch.Tensor:
    """Zeros around x such that a convolution gives ceil(size / stride) elements an axis, an odd one behind."""
    pads: list[int] = []
    for size in (x.shape[3], x.shape[2]):  # F.pad begins with the last axis
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads) if any(pads) else x


class Block(nn.Module):
    """[N, C, H, W] -> [N, channels, ceil(H / stride), ceil(W / stride)].

    1x1 wider (unless `expand` is 1), depthwise, 1x1 narrower; beside the input itself where shapes permit.
    Attributes are named as in the published file.
    """

    def __init__(self, channels: int, stage: Stage, stride: int) -> None:
        super().__init__()
        wide = channels * stage.expand
        self.kernel, self.stride = stage.kernel, stride
        self.expands, self.adds = stage.expand != 1, stride == 1 and channels == stage.channels
        if self.expands:
            self._expand_conv = nn.Conv2d(channels, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = nn.Conv2d(wide, wide, stage.kernel, stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv = nn.Conv2d(wide, stage.channels, 1, bias=False)
        self._bn2 = _norm(stage.channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = F.relu6(self._bn1(self._depthwise_conv(_same(y, self.kernel, self.stride))))
        y = self._bn2(self._project_conv(y))
        return y + x if self.adds else y


class EfficientNetLite(nn.Module):
    """Pictures [N, 3, H, W] of numbers from -1 to 1 -> logits [N, classes]."""

    def __init__(self, stem: int, stages: Sequence[Stage], head: int, classes: int) -> None:
        super().__init__()
        self._conv_stem = nn.Conv2d(3, stem, 3, 2, bias=False)
        self._bn0 = _norm(stem)
        self._blocks = nn.ModuleList()
        channels = stem
        for stage in stages:
            for repeat in range(stage.repeats):
                self._blocks.append(Block(channels, stage, 1 if repeat else stage.stride))
                channels = stage.channels
        self._conv_head = nn.Conv2d(channels, head, 1, bias=False)
        self._bn1 = _norm(head)
        self._fc = nn.Linear(head, classes)
        draw_statistics(self)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self._bn0(self._conv_stem(_same(pixels, 3, 2))))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x)))
        return self._fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    def load(self, file: Path) -> None:
        """Take the published weights, which must be exactly those of this network."""
        self.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))


def scaled(pictures: np.ndarray) -> torch.Tensor:
    """[N, H, W, 3] uint8 RGB -> what the published weights expect, [N, 3, H, W] float32."""
    between = (pictures.astype(np.float32) - 127) / 128
    return torch.from_numpy(np.ascontiguousarray(between.transpose(0, 3, 1, 2)))
