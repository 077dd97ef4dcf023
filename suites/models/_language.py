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


def declare(
    name: str,
    summary: str,
    family: str,
    config: Mapping[str, Any],
    sequence: int,
    *,
    load: Callable[[nn.Module], None] | None = None,
    text: Sequence[int] = (),
    needs: tuple[str, ...] = (),
) -> ModelSpec:
    """A language model of transformers in configuration `config`; `sequence` is the default length.

    Its weights and its ids are random, unless `load` writes published weights, which `enginebench data fetch` brings,
    to the network; then inputs are pieces of `text`.
    """
    positions = config.get("max_position_embeddings") or config["n_positions"]

    def make(arguments: Arguments) -> nn.Module:
        from suites.models.nets.causal import draw_vectors

        model = build(family, config, arguments)
        if load is None:
            draw_vectors(model)
        else:
            load(model.network)
        return model

    def refuse(arguments: Arguments) -> str | None:
        length = arguments["sequence"] + arguments["steps"]
        if arguments["phase"] == "score" or length <= positions:
            return None
        return f"sequence and steps are {length} tokens; it has {positions} positions"

    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=random_ids(config["vocab_size"]) if load is None else read_ids(text),
        shape_keys={"batch": 1, "sequence": sequence},
        limits={"sequence": (1, positions)},
        options=OPTIONS,
        refuses=refuse,
        needs=("torch", "transformers", *needs),
        missing=lambda: None if load is None else data.missing(name),
    )
