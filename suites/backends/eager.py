"""PyTorch eager, as its documentation recommends for inference: eval mode under `torch.inference_mode()`.

Text is generated with transformers' static cache, which holds as many tokens as the case needs and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Generator, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation


class Eager(Backend):
    """The model itself."""

    restores_state = True

    def load(self) -> None:
        """Set torch's threads."""
        import torch

        torch.set_num_threads(self.threads)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:  # noqa: ARG002  # part of the interface
        """Nothing to prepare but for buffers that the model writes to."""
        import torch

        from suites.backends import _buffers

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return model(*arguments)

        return Prepared(call, ready=_buffers.restorer(model, self.state))

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002
        """The network as it is."""
        from suites.backends import _static_cache

        return Generator(*_static_cache.made(model, lambda step: step, lambda step: step))
