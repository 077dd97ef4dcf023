"""What the models that look at pictures declare alike. Imports torch only where pictures are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from suites.models._spec import Arguments

if TYPE_CHECKING:
    import torch


def normal(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor]:
    """Normal numbers [batch, 3, size, size]: as pictures are after their mean is subtracted and divided by."""
    import torch

    size = arguments["size"]
    return (torch.randn(arguments["batch"], 3, size, size, generator=generator),)


def uniform(
    low: float, high: float, size: int | None = None
) -> Callable[[Arguments, torch.Generator], tuple[torch.Tensor]]:
    """Numbers from `low` to `high`, [batch, 3, size, size]; the size is the model's where `size` is None."""

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor]:
        import torch

        side = arguments["size"] if size is None else size
        unit = torch.rand(arguments["batch"], 3, side, side, generator=generator)
        return (low + (high - low) * unit,)

    return example
