"""A model and its inputs in any form that `engine.compile` takes -> a module and a tuple of tensors.

Every backend is called with tensors by position. A model with keyword arguments or nested ones gets a module around it
that arranges the tensors, once and for every backend.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from suites.models._spec import ModelError

if TYPE_CHECKING:
    import torch
    from torch import nn

EXPECTED = "(torch.nn.Module, inputs), with inputs a tensor, a tuple, or (tuple, dict of keyword arguments)"
_CONSTANTS = (type(None), bool, int, float, str)


def arranged(where: str, made: Any) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The module to call, and the tensors to call it with.

    Args:
        where: begins messages.
        made: ``(model, inputs)``. The model is an `nn.Module` or an `ExportedProgram`. The inputs are a tensor, a tuple
            of positional arguments, or ``(tuple, dict)`` with keyword arguments; an argument may be nested lists,
            tuples and dicts. A leaf that is not a tensor (None, a number, a text) becomes a part of the model.

    Raises:
        ModelError: `made` is something else.
    """
    import torch

    if not isinstance(made, tuple) or len(made) != 2:
        raise ModelError(f"{where} must return {EXPECTED}, got {_shape(made)}")
    model, given = made
    if isinstance(model, torch.export.ExportedProgram):
        model = from_exported(model)
    given = (given,) if isinstance(given, torch.Tensor) else given
    if not isinstance(model, torch.nn.Module) or not isinstance(given, tuple):
        raise ModelError(f"{where} must return {EXPECTED}, got {_shape(made)}")
    args, keywords = given if _has_keywords(given) else (given, {})
    if not keywords and all(isinstance(one, torch.Tensor) for one in args):
        tensors = args
    else:
        model, tensors = _wrapped(where, model, args, keywords)
    if not tensors:
        raise ModelError(f"{where}: expected at least one tensor among the inputs, got {_shape(given)}")
    return model, tensors


def from_exported(program: torch.export.ExportedProgram) -> nn.Module:
    """The module of an exported program; its attribute `exported_program` is the program, for who takes that."""
    module: Any = program.module()
    module.exported_program = program
    # Such a module has no mode, and raises where it is asked to change it, as every model is before it is measured.
    module.eval = lambda: module
    module.train = lambda _mode=True: module
    found: nn.Module = module
    return found


def of_seed(own: tuple[torch.Tensor, ...], generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Copies of `own` for seed 0; for another seed the same values in another order: they stay in range."""
    if generator.initial_seed() == 0:
        return tuple(one.clone() for one in own)
    return tuple(_shuffled(one, generator) for one in own)


def _has_keywords(given: tuple[Any, ...]) -> bool:
    return len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict)


def _wrapped(
    where: str, model: nn.Module, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from suites.models.nets.flat import flat

    tensors: list[torch.Tensor] = []
    names: list[str] = []
    positional = zip(_parameter_names(model), args, strict=False)
    arguments = [_tree(where, name, value, tensors, names) for name, value in positional]
    named = {name: _tree(where, name, value, tensors, names) for name, value in keywords.items()}
    return flat(model, tuple(arguments), named, names), tuple(tensors)


def _parameter_names(model: nn.Module) -> Iterator[str]:
    """Names of the positional parameters of `forward`, and then numbered ones."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    yield from (name for name, one in inspect.signature(model.forward).parameters.items() if one.kind in kinds)
    number = 0
    while True:
        yield f"argument_{number}"
        number += 1


def _tree(where: str, name: str, value: Any, tensors: list[torch.Tensor], names: list[str]) -> Any:
    """`value` with a `Leaf` for each tensor, which is appended to `tensors`, and its name to `names`."""
    import torch

    from suites.models.nets.flat import Leaf

    if isinstance(value, torch.Tensor):
        tensors.append(value)
        names.append(_identifier(name, names))
        return Leaf(len(tensors) - 1)
    if type(value) is dict:
        return {key: _tree(where, f"{name}_{key}", one, tensors, names) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_tree(where, f"{name}_{n}", one, tensors, names) for n, one in enumerate(value))
    if not isinstance(value, _CONSTANTS):
        raise ModelError(
            f"{where}: every input must be a tensor, a list, tuple or dict of tensors, or a plain constant; "
            f"{name} is {type(value).__name__}"
        )
    return value


def _identifier(name: str, taken: list[str]) -> str:
    """A name of a parameter like `name` that is not in `taken`."""
    found = re.sub(r"\W", "_", name) or "argument"
    found = f"_{found}" if found[0].isdigit() else found
    while found in taken:
        found += "_"
    return found


def _shuffled(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    import torch

    order = torch.randperm(value.numel(), generator=generator)
    return value.reshape(-1)[order].reshape(value.shape)


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(v).__name__ for v in value)})"
    return type(value).__name__
