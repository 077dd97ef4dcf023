"""A model and its inputs in any form that `engine.compile` takes -> a module and tuples of tensors.

Every backend is called with tensors by position. A model with keyword arguments or nested ones gets a module around it
that arranges the tensors, once and for every backend.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from suites.models._sets import INPUT_SETS, describe_layout
from suites.models._spec import ModelError

if TYPE_CHECKING:
    import torch
    from torch import nn

EXPECTED = (
    "(torch.nn.Module, inputs), with inputs a tensor, a tuple, (tuple, dict of keyword arguments), or a list of "
    f"2 to {INPUT_SETS} such input sets"
)
_CONSTANTS = (type(None), bool, int, float, str)


def arranged(where: str, made: Any) -> tuple[nn.Module, list[tuple[torch.Tensor, ...]]]:
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

    from suites.models.nets.flat import Leaf, flat

    if not isinstance(made, tuple) or len(made) != 2:
        raise ModelError(f"{where} must return {EXPECTED}, got {_shape(made)}")
    model, given = made
    if isinstance(model, torch.export.ExportedProgram):
        model = from_exported(model)
    sets = given if isinstance(given, list) else [given]
    sets = [(one,) if isinstance(one, torch.Tensor) else one for one in sets]
    is_count = not isinstance(given, list) or 2 <= len(given) <= INPUT_SETS
    if not isinstance(model, torch.nn.Module) or not is_count or not all(isinstance(one, tuple) for one in sets):
        raise ModelError(f"{where} must return {EXPECTED}, got {_shape(made)}")
    calls = [_read_call(where, model, one) for one in sets]
    for number, one in enumerate(calls[1:], start=2):
        if difference := _find_difference(one, calls[0]):
            raise ModelError(
                f"{where}: input set {number}: {difference}; the sets of a list differ in values of tensors alone, and "
                "several inputs of one call are a tuple"
            )
    args, keywords, names, tensors = calls[0]
    if not tensors:
        raise ModelError(f"{where}: expected at least one tensor among the inputs, got {_shape(sets[0])}")
    if keywords or not all(isinstance(one, Leaf) for one in args):
        model = flat(model, args, keywords, names)
    return model, [one.tensors for one in calls]


def from_exported(program: torch.export.ExportedProgram) -> nn.Module:
    """The module of an exported program; its attribute `exported_program` is the program, for who takes that."""
    module: Any = program.module()
    module.exported_program = program
    # Such a module has no mode, and raises where it is asked to change it, as every model is before it is measured.
    module.eval = lambda: module
    module.train = lambda _mode=True: module
    found: nn.Module = module
    return found


def _has_keywords(given: tuple[Any, ...]) -> bool:
    return len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict)


class _Call(NamedTuple):
    """Arguments with a `Leaf` in place of each tensor, and the tensors with their names."""

    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    names: list[str]
    tensors: tuple[torch.Tensor, ...]


def _read_call(where: str, model: nn.Module, given: tuple[Any, ...]) -> _Call:
    args, keywords = given if _has_keywords(given) else (given, {})
    tensors: list[torch.Tensor] = []
    names: list[str] = []
    positional = zip(_parameter_names(model), args, strict=False)
    arguments = [_tree(where, name, value, tensors, names) for name, value in positional]
    named = {name: _tree(where, name, value, tensors, names) for name, value in keywords.items()}
    return _Call(tuple(arguments), named, names, tuple(tensors))


def _find_difference(call: _Call, first: _Call) -> str | None:
    """In what a set differs from the first one, apart from values of tensors; None if in nothing."""
    layouts = zip(call.names, describe_layout(call.tensors), describe_layout(first.tensors), strict=False)
    for name, mine, other in layouts:
        if mine[:2] != other[:2]:
            return f"{name} is {mine[0]} {mine[1]}, in the first set {other[0]} {other[1]}"
        if mine != other:
            return f"{name} has other strides than in the first set, or shares the memory of another input"
    is_same = (call.args, call.keywords) == (first.args, first.keywords)
    return None if is_same else "its arguments or constants are not those of the first set"


def _parameter_names(model: nn.Module) -> Iterator[str]:
    """Names of the positional parameters of `forward`, and then numbered ones."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with contextlib.suppress(ValueError):  # a module of TorchScript has no signature
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


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shape, value))})"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return type(value).__name__
