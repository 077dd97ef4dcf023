"""`attention`: the operation alone, in the forms in which models have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.models._spec import Arguments, ModelSpec, Option

if TYPE_CHECKING:
    import torch
    from torch import nn

_FORMS = ("manual", "softmax", "sdpa", "causal", "masked", "gqa")  # as the network has them, which imports torch


def _make(arguments: Arguments) -> nn.Module:
    from suites.models.nets.attention import Attention

    return Attention(arguments["form"])


def _example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Normal q, k and v; of each text at least one key is no padding."""
    import torch

    batch, sequence, size = arguments["batch"], arguments["sequence"], arguments["head_size"]
    groups = arguments["groups"] if arguments["form"] == "gqa" else arguments["heads"]
    found = [
        torch.randn(batch, heads, sequence, size, generator=generator) for heads in (arguments["heads"], groups, groups)
    ]
    if arguments["form"] == "masked":
        lengths = torch.randint(1, sequence + 1, (batch, 1, 1, 1), generator=generator)
        found.append(torch.arange(sequence) < lengths)
    return tuple(found)


def _spec(name: str, summary: str, sequence: int, heads: int, head_size: int) -> ModelSpec:
    return ModelSpec(
        name=name,
        summary=summary,
        make=_make,
        example=_example,
        shape_keys={"batch": 1, "sequence": sequence},
        options={
            "form": Option(
                "sdpa", _FORMS, doc="exp and sum by hand; F.softmax; one call; causal; padded keys; shared key heads"
            ),
            "heads": Option(heads, doc="heads of the queries"),
            "groups": Option(2, doc="form=gqa: heads of the keys and values; divides heads"),
            "head_size": Option(head_size, doc="features of a head"),
        },
    )


MODELS = (
    _spec("attention", "attention alone, in six forms", 128, 12, 64),
    _spec("attention-tiny", "the same, few and small heads, for tests", 9, 4, 8),
)
