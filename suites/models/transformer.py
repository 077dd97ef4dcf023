"""`transformer`: one pre-norm block or a stack of them, with attention written in three ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from suites.models._spec import Arguments, ModelSpec, Option

if TYPE_CHECKING:
    import torch
    from torch import nn


def _make(arguments: Arguments) -> nn.Module:
    from suites.models.nets.transformer import Transformer

    sizes = arguments["width"], arguments["heads"], arguments["layers"]
    return Transformer(*sizes, arguments["attention"], arguments["feed_forward"], causal=arguments["causal"])


def _example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    import torch

    return (torch.randn(arguments["batch"], arguments["sequence"], arguments["width"], generator=generator),)


def _numpy(model: nn.Module) -> Callable[..., Any]:
    from suites.models import _by_hand

    return _by_hand.make_transformer(model)


def _spec(name: str, summary: str, width: int, heads: int, layers: int) -> ModelSpec:
    return ModelSpec(
        name=name,
        summary=summary,
        make=_make,
        example=_example,
        numpy=_numpy,
        shape_keys={"batch": 1, "sequence": 16},
        options={
            "width": Option(width, doc="features of a token"),
            "heads": Option(heads, doc="attention heads; divides width"),
            "layers": Option(layers, doc="blocks; a final LayerNorm follows the last"),
            "attention": Option(
                "sdpa",
                ("manual", "softmax", "sdpa"),
                doc="matmul, exp and sum by hand; matmul and F.softmax; scaled_dot_product_attention",
            ),
            "feed_forward": Option("gelu", ("gelu", "swiglu"), doc="one layer and GELU; a gate, SiLU and a product"),
            "causal": Option(default=False, values=(False, True), doc="a token sees itself and those before it"),
        },
    )


MODELS = (
    _spec("transformer", "pre-norm transformer block(s), attention spelled in three ways; random weights", 256, 4, 1),
    _spec("transformer-tiny", "the same, two narrow blocks, for tests", 32, 2, 2),
)
