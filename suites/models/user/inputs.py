"""A model and its inputs in any form that `engine.compile` takes -> a module and tuples of tensors.

Every backend is called with tensors by position. A model with keyword arguments or nested ones gets a module around it
that arranges the tensors, once and for every backend.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from suites.models._sets import INPUT_SETS, InputSets, describe_layout
from suites.models._spec import WEIGHT_SEED, Arguments, ModelError, ModelSpec, seeded

if TYPE_CHECKING:
    import torch
    from torch import nn

EXPECTED = (
    "(torch.nn.Module, inputs), with inputs a tensor, a tuple, (tuple, dict of keyword arguments), or a list of "
    f"2 to {INPUT_SETS} such input sets"
)
Made = tuple[Any, list[tuple["torch.Tensor", ...]]]
"""A module, and one set of tensors to call it with, or several."""


def declare(make: Callable[[Arguments], Made], **fields: Any) -> ModelSpec:
    """The `ModelSpec` of a model that is made together with its inputs; `fields` are those that `make` does not say."""
    known: dict[tuple[Any, ...], InputSets] = {}

    def make_model(arguments: Arguments) -> Any:
        model, sets = make(arguments)
        known[tuple(arguments.items())] = InputSets(sets)
        return model

    def get_sets(arguments: Arguments) -> InputSets:
        key = tuple(arguments.items())
        if key not in known:
            with seeded(WEIGHT_SEED):
                make_model(arguments)
        return known[key]

    return ModelSpec(make=make_model, sets=get_sets, **fields)


def arrange(where: str, made: Any) -> Made:
    """The module to call, and the sets of tensors to call it with.

    Args:
        where: begins messages.
        made: ``(model, inputs)``. The model is an `nn.Module` or an `ExportedProgram`. The inputs are a tensor, a tuple
            of positional arguments, or ``(tuple, dict)`` with keyword arguments; an argument may be nested lists,
            tuples and dicts. A leaf that is not a tensor (None, a number, a text) becomes a part of the model. A list
            holds several such inputs, which differ in nothing but the values of tensors.

    Raises:
        ModelError: `made` is something else.
    """
    import torch

    from suites.models.nets.flat import Call, flat

    model, given = made if isinstance(made, tuple) and len(made) == 2 else (None, made)
    types = ", ".join(type(one).__name__ for one in (made if isinstance(made, tuple) else [made]))
    if isinstance(model, torch.export.ExportedProgram):
        model = from_exported(model)
    sets = [(one,) if isinstance(one, torch.Tensor) else one for one in (given if isinstance(given, list) else [given])]
    is_count = not isinstance(given, list) or 2 <= len(sets) <= INPUT_SETS
    if not isinstance(model, torch.nn.Module) or not is_count or not all(isinstance(one, tuple) for one in sets):
        raise ModelError(f"{where} must return {EXPECTED}, got {types}")
    calls = [Call.read(_name_parameters(model), one) for one in sets]
    first = calls[0]
    if not first.tensors:
        raise ModelError(f"{where} must return {EXPECTED}, got no tensor among the inputs")
    for number, one in enumerate(calls[1:], start=2):
        if not one.has_structure_of(first) or describe_layout(one.tensors) != describe_layout(first.tensors):
            raise ModelError(
                f"{where}: input set {number} differs from the first one in more than the values of tensors; several "
                "inputs of one call are a tuple"
            )
    return model if first.is_plain else flat(model, first), [one.tensors for one in calls]


def from_exported(program: torch.export.ExportedProgram) -> nn.Module:
    """The module of an exported program; its attribute `exported_program` is the program, for who takes that."""
    module: Any = program.module()
    module.exported_program = program
    # Such a module has no mode, and raises where it is asked to change it, as every model is before it is measured.
    module.eval = lambda: module
    module.train = lambda _mode=True: module
    found: nn.Module = module
    return found


def _name_parameters(model: nn.Module) -> Iterator[str]:
    """Names of the positional parameters of `forward`, and then numbered ones."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with contextlib.suppress(ValueError):  # a module of TorchScript has no signature
        yield from (name for name, one in inspect.signature(model.forward).parameters.items() if one.kind in kinds)
    yield from (f"argument_{number}" for number in itertools.count())
