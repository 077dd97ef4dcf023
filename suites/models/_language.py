"""What the language models declare alike: token ids in, logits out. Imports torch only where something is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from suites import data
from suites.models._spec import Arguments, ModelSpec, Option

if TYPE_CHECKING:
    import torch
    from torch import nn

    from suites.models.nets.causal import CausalLM
    from suites.models.nets.generation import Generation

OPTIONS: Mapping[str, Option] = {
    "attention": Option("sdpa", ("sdpa", "eager"), doc="transformers' implementation of attention"),
    "phase": Option(
        "score", ("score", "prefill", "decode"), doc="of a whole text, or of generating one; see nets/generation.py"
    ),
    "steps": Option(16, doc="tokens that follow the prompt: the cache has room for them, phase=decode takes them in"),
    "logits": Option("all", ("all", "last"), doc="of every position, or of the last one alone, as generating needs"),
}


def random_ids(vocabulary: int) -> Callable[[Arguments, torch.Generator], tuple[torch.Tensor, ...]]:
    """Ids [batch, sequence] int64, drawn from the whole vocabulary; in phase decode [batch, steps] more."""

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        import torch

        lengths = [arguments["sequence"], *([arguments["steps"]] if arguments.get("phase") == "decode" else [])]
        return tuple(torch.randint(0, vocabulary, (arguments["batch"], n), generator=generator) for n in lengths)

    return example


def read_ids(text: Sequence[int]) -> Callable[[Arguments, torch.Generator], tuple[torch.Tensor, ...]]:
    """Ids [batch, sequence] int64, and in phase decode [batch, steps] that follow them.

    Each row is a piece of `text` from a random place on. A text that is too short begins anew.
    """

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        import torch

        length, steps = arguments["sequence"], arguments["steps"] if arguments.get("phase") == "decode" else 0
        begins = torch.randint(0, len(text), (arguments["batch"], 1), generator=generator)
        ids = torch.tensor(text)[(begins + torch.arange(length + steps)) % len(text)]
        return (ids[:, :length], ids[:, length:]) if steps else (ids,)

    return example


def build(family: str, config: Mapping[str, Any], arguments: Arguments) -> CausalLM | Generation:
    """The model that transformers has for `family`, in configuration `config`, with the options of `arguments`."""
    from suites.models.nets.causal import CausalLM

    model = CausalLM(family, config, arguments["attention"], last_only=arguments["logits"] == "last")
    if arguments["phase"] == "score":
        return model
    from suites.models.nets.generation import Generation

    sizes = arguments["batch"], arguments["sequence"], arguments["steps"]
    return Generation(model.network, arguments["phase"], *sizes)


def too_long(positions: int) -> Callable[[Arguments], str | None]:
    """`ModelSpec.refuses` of a model that knows so many positions."""

    def refuses(arguments: Arguments) -> str | None:
        length = arguments["sequence"] + arguments["steps"]
        if arguments["phase"] == "score" or length <= positions:
            return None
        return f"sequence and steps are {length} tokens; it has {positions} positions"

    return refuses


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
        **_declare_options(positions),
    )


def published_llama(
    name: str,
    summary: str,
    config: Mapping[str, Any],
    load: Callable[[nn.Module], None],
    text: Sequence[int],
    *,
    needs: Sequence[str] = (),
) -> ModelSpec:
    """A Llama with published weights, which `enginebench data fetch` brings.

    Args:
        name: of the model and of its data.
        summary: of the model.
        config: fields of LlamaConfig.
        load: writes the weights to transformers' LlamaForCausalLM.
        text: token ids of which inputs are pieces.
        needs: packages beside torch and transformers.
    """

    def make(arguments: Arguments) -> nn.Module:
        model = build("llama", config, arguments)
        load(model.network)
        return model

    declared = _declare_options(config["max_position_embeddings"])
    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=read_ids(text),
        shape_keys={"batch": 1, "sequence": 128},
        missing=lambda: data.missing(name),
        **declared | {"needs": (*declared["needs"], *needs)},
    )


def _declare_options(positions: int) -> dict[str, Any]:
    """Fields of the `ModelSpec` of every language model that `build` makes; `positions` is the longest sequence."""
    return {
        "limits": {"sequence": (1, positions)},
        "options": OPTIONS,
        "refuses": too_long(positions),
        "needs": ("torch", "transformers"),
    }
