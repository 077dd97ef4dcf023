"""The multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
}


class MLP(nn.Module):
    """[N, widths[0]] -> [N, widths[-1]]: linear layers, the activation between them and none after the last."""

    def __init__(self, widths: Sequence[int], activation: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for wide, next_wide in itertools.pairwise(widths):
            layers += [nn.Linear(wide, next_wide), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
