"""torchao: the weights of linear layers as int8 with a scale for each output channel, compiled by inductor.

torchao's documentation recommends torch.compile behind `quantize_`: uncompiled, weights are widened in every call. The
rest, freezing included, is as of `torch_compile`; its option ``mode=max-autotune`` is torchao's choice for a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.backends.base import Generator, Scheme
from suites.backends.torch_compile import TorchCompile
from suites.harness.errors import Unavailable
from suites.quiet import silence_torchao

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation


CONFIGS = {"int8_weight": "Int8WeightOnlyConfig", "int8_dynamic": "Int8DynamicActivationInt8WeightConfig"}
"""Precision -> torchao's name of it."""


class TorchAo(TorchCompile):
    """Quantises the model in place, then compiles it. Options: those of `TorchCompile`."""

    schemes = dict.fromkeys(
        CONFIGS, Scheme("int8 with a scale for each output channel, rounded by torchao; embeddings stay float32")
    )

    def load(self) -> None:
        super().load()
        silence_torchao()
        import torchao.quantization  # noqa: F401  # so that its import is timed here

    def _quantised(self, model: nn.Module) -> nn.Module:
        _quantise(model, self.precision)
        return model

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        _quantise(model.network, self.precision)
        return super().generator(model, inputs)


def _quantise(model: nn.Module, precision: str) -> None:
    """Quantise the linear layers of `model` in place; those that are quantised already stay as they are.

    Raises:
        Unavailable: the model has other weights, which torchao would leave in float32.
    """
    import torch
    from torchao import quantization
    from torchao.utils import TorchAOBaseTensor

    known = torch.nn.Linear | torch.nn.Embedding
    others = [one for one in model.modules() if not isinstance(one, known)]
    large = {type(one).__name__ for one in others if any(own.ndim > 1 for own in one.parameters(recurse=False))}
    if large:
        raise Unavailable(f"torchao quantises the weights of nn.Linear alone; the model has {', '.join(sorted(large))}")

    def is_plain(module: Any, _name: str) -> bool:
        return isinstance(module, torch.nn.Linear) and not isinstance(module.weight, TorchAOBaseTensor)

    quantization.quantize_(model, getattr(quantization, CONFIGS[precision])(), filter_fn=is_plain)
