"""What the language models declare alike: token ids in, logits out. Imports torch only where something is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from suites.models._spec import Arguments, ModelSpec, Option

if TYPE_CHECKING:
    import torch
    from torch import nn

    from suites.models.nets.causal import CausalLM

OPTIONS: Mapping[str, Option] = {
    "attention": Option("sdpa", ("sdpa", "eager"), doc="transformers' implementation of attention"),
    "logits": Option("all", ("all", "last"), doc="of every position, or of the last one alone, as generating needs"),
}


def random_ids(vocabulary: int) -> Callable[[Arguments, torch.Generator], tuple[torch.Tensor]]:
    """Ids [batch, sequence] int64, drawn from the whole vocabulary."""

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor]:
        import torch

        return (torch.randint(0, vocabulary, (arguments["batch"], arguments["sequence"]), generator=generator),)

    return example


def build(family: str, config: Mapping[str, Any], arguments: Arguments) -> CausalLM:
    """The model that transformers has for `family`, in configuration `config`, with the options of `arguments`."""
    from suites.models.nets.causal import CausalLM

    return CausalLM(family, config, arguments["attention"], last_only=arguments["logits"] == "last")


def random_model(
    name: str, summary: str, family: str, config: Mapping[str, Any], sequence: int, positions: int
) -> ModelSpec:
    """A language model with random weights; `sequence` is the default length, `positions` the longest."""

    def make(arguments: Arguments) -> nn.Module:
        from suites.models.nets.causal import draw_vectors

        model = build(family, config, arguments)
        draw_vectors(model)
        return model

    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=random_ids(config["vocab_size"]),
        shape_keys={"batch": 1, "sequence": min(sequence, positions)},
        limits={"sequence": (1, positions)},
        options=OPTIONS,
        needs=("torch", "transformers"),
    )
