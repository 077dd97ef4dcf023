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
        import torch

        torch.set_num_threads(self.threads)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:  # noqa: ARG002  # part of the interface
        import torch

        from suites.backends._buffers import Buffers

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return model(*arguments)

        ready = Buffers(model, self.state).ready
        return Prepared(call, ready=ready, precision=self.precision, device=self.device)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002  # part of the interface
        from suites.backends import _static_cache

        return Generator(*_static_cache.make_steps(model), precision=self.precision, device=self.device)
