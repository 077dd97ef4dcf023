"""PyTorch eager, as its documentation recommends for inference: eval mode under `torch.inference_mode()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn


class Eager(Backend):
    """The model itself."""

    def load(self) -> None:
        """Set torch's threads."""
        import torch

        torch.set_num_threads(self.threads)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:  # noqa: ARG002  # part of the interface
        """Nothing to prepare."""
        import torch

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return model(*arguments)

        return Prepared(call)
