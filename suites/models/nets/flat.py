"""A module around one with keyword arguments or nested ones: it takes tensors by position."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from engine.exporter.torch_internals import tree_unflatten
from suites.torch_internals import flatten_with_names


class _Tensor:
    """Stands for a tensor among constants. The class itself does, which stays the same when a model is copied."""


@dataclass(frozen=True)
class Call:
    """The arguments of a call, flat.

    Attributes:
        names: of the tensors.
        tensors: in the order of `forward`.
        constants: all leaves, with `_Tensor` in place of each tensor.
        structure: torch's, of (positional arguments by name, keyword arguments).
        is_plain: True if the arguments are tensors by position.
    """

    names: list[str]
    tensors: tuple[torch.Tensor, ...]
    constants: list[Any]
    structure: Any
    is_plain: bool

    @classmethod
    def read(cls, parameters: Iterator[str], given: tuple[Any, ...]) -> Call:
        """The call of ``(argument, ...)`` or of ``((argument, ...), {keyword: argument})``."""
        has_keywords = len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict)
        args, keywords = given if has_keywords else (given, {})
        leaves, structure = flatten_with_names((dict(zip(parameters, args, strict=False)), keywords))
        tensors = [(name, one) for name, one in leaves if isinstance(one, torch.Tensor)]
        constants = [_Tensor if isinstance(one, torch.Tensor) else one for _, one in leaves]
        is_plain = not keywords and all(isinstance(one, torch.Tensor) for one in args)
        return cls([name for name, _ in tensors], tuple(one for _, one in tensors), constants, structure, is_plain)

    def has_structure_of(self, other: Call) -> bool:
        """True if both differ in tensors alone."""
        return (self.structure, self.constants) == (other.structure, other.constants)


class Flat(nn.Module):
    """Tensors by position -> what `model` returns for the arguments of `call` with these tensors."""

    def __init__(self, model: nn.Module, call: Call) -> None:
        super().__init__()
        self.model = model
        self._constants, self._structure = call.constants, call.structure

    def call(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """The call of the model."""
        rest = iter(tensors)
        leaves = [next(rest) if one is _Tensor else one for one in self._constants]
        args, keywords = tree_unflatten(leaves, self._structure)
        return self.model(*args.values(), **keywords)


def flat(model: nn.Module, call: Call) -> Flat:
    """A `Flat` whose class is called as that of `model`, and the parameters of its `forward` are those of `call`.

    So exporters, and with them messages and reports, name what the user names.
    """

    def forward(self: Flat, *tensors: torch.Tensor) -> Any:
        return self.call(tensors)

    usual = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, usual) for name in ("self", *call.names)]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # `inspect` reads it
    made: type[Flat] = type(type(model).__name__, (Flat,), {"forward": forward})
    return made(model, call)
