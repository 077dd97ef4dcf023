"""`mlp`: linear layers with an activation between them, at several widths and depths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from suites.models._spec import Arguments, ModelSpec, Option

if TYPE_CHECKING:
    import torch
    from torch import nn

WIDTHS: dict[str, str] = {"small": "64-128-64", "large": "1024-4096-4096-1024"}
"""The named presets: width of the input, of each layer after it."""


def _widths(arguments: Arguments) -> list[int]:
    given: str = arguments["widths"]
    return [int(width) for width in WIDTHS.get(given, given).split("-")]


def _make(arguments: Arguments) -> nn.Module:
    from suites.models.nets.mlp import MLP

    return MLP(_widths(arguments), arguments["activation"])


def _example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    import torch

    return (torch.randn(arguments["batch"], _widths(arguments)[0], generator=generator),)


def _numpy(model: nn.Module) -> Callable[..., Any]:
    from suites.models import _by_hand

    return _by_hand.make_mlp(model)


MODELS = (
    ModelSpec(
        name="mlp",
        summary="linear layers with an activation between them; random weights",
        make=_make,
        example=_example,
        numpy=_numpy,
        shape_keys={"batch": 1},
        options={
            "widths": Option("small", tuple(WIDTHS), r"[1-9]\d*(-[1-9]\d*)+", "preset, or widths such as 64-128-64"),
            "activation": Option("relu", ("relu", "gelu", "gelu_tanh"), doc="between layers, none after the last"),
        },
    ),
)
