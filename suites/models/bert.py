"""`bert`: the encoder of transformers' BertModel in the configuration of BERT-base; weights are random."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from suites.models._language import OPTIONS
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    import torch
    from torch import nn

# BERT-base, uncased: the published configuration, which is also what BertConfig() has as defaults.
BASE: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
TINY = BASE | {
    "vocab_size": 211,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def token_inputs(
    batch: int, sequence: int, vocabulary: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids [batch, sequence] and their attention mask, both int64.

    The first row has full length; those after it end earlier (at half of it at the earliest) and are padded with 0.
    """
    import torch

    ids = torch.randint(1, vocabulary, (batch, sequence), generator=generator)
    lengths = torch.randint((sequence + 1) // 2, sequence + 1, (batch,), generator=generator)
    lengths[:1] = sequence
    mask = (torch.arange(sequence) < lengths[:, None]).to(torch.int64)
    return ids * mask, mask


def _numpy(model: nn.Module) -> Callable[..., Any]:
    from suites.models import _by_hand

    return _by_hand.make_bert(model)


def _spec(name: str, summary: str, config: dict[str, Any]) -> ModelSpec:
    def make(arguments: Arguments) -> nn.Module:
        from suites.models.nets.bert import Bert

        return Bert(config, arguments["attention"])

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return token_inputs(arguments["batch"], arguments["sequence"], config["vocab_size"], generator)

    positions = config["max_position_embeddings"]
    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=example,
        numpy=_numpy,
        shape_keys={"batch": 1, "sequence": min(128, positions)},
        limits={"sequence": (1, positions)},
        options={"attention": OPTIONS["attention"]},
        needs=("torch", "transformers"),
    )


MODELS = (
    _spec("bert", "BertModel in the configuration of BERT-base; random weights", BASE),
    _spec("bert-tiny", "BertModel, two narrow layers, for tests; random weights", TINY),
)
