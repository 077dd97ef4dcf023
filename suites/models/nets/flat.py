"""A module around one with keyword arguments or nested ones: it takes tensors by position."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Leaf:
    """Stands for the tensor at `position` of a call."""

    position: int


class Flat(nn.Module):
    """Tensors by position -> what `model` returns for its own arguments.

    Args:
        model: the module.
        args, keywords: its arguments, with a `Leaf` in place of each tensor.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self._args = args
        self._keywords = dict(keywords)

    def call(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """The call of the model."""
        return self.model(*_built(self._args, tensors), **_built(self._keywords, tensors))


def flat(model: nn.Module, args: tuple[Any, ...], keywords: Mapping[str, Any], names: Sequence[str]) -> Flat:
    """A `Flat` whose class is called as that of `model`, and the parameters of its `forward` are `names`.

    So exporters, and with them messages and reports, name what the user names.
    """

    def forward(self: Flat, *tensors: torch.Tensor) -> Any:
        return self.call(tensors)

    usual = inspect.Parameter.POSITIONAL_OR_KEYWORD
    safe = [f"{name}_" if keyword.iskeyword(name) or name == "self" else name for name in names]
    parameters = [inspect.Parameter(name, usual) for name in ("self", *safe)]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # `inspect` reads it
    made: type[Flat] = type(type(model).__name__, (Flat,), {"forward": forward})
    return made(model, args, keywords)


def _built(tree: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    """`tree` with the tensors in their places."""
    if isinstance(tree, Leaf):
        return tensors[tree.position]
    if isinstance(tree, dict):
        return {key: _built(one, tensors) for key, one in tree.items()}
    if isinstance(tree, list):
        return [_built(one, tensors) for one in tree]
    return tuple(_built(one, tensors) for one in tree) if isinstance(tree, tuple) else tree
