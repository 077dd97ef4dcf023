"""Modules that several tests compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        """What the function returns."""
        return self.function(*inputs)


class Call(Function):
    """A function of one tensor, whose name is x."""

    def forward(self, x: Any) -> Any:
        """What the function returns."""
        return self.function(x)
