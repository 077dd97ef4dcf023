"""Checks `dynamic_shapes` against the example inputs, and says what torch found wrong with them during a capture."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from engine.errors import ConfigError
from engine.exporter.symbols import list_parts
from engine.suggest import unknown

_LONGEST = 2**31
"""torch gives this size, or more, to a Dim without a maximum."""


def check_dynamic_shapes(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any) -> None:
    """ConfigError if `shapes` names no input, an axis that an input does not have, or excludes its example size.

    Only inputs that are tensors themselves are checked, not those in lists and dicts: torch checks these.
    """
    if not shapes:
        return
    inputs = _name_inputs(model, args, kwargs)
    if isinstance(shapes, Mapping):
        for name in shapes:
            if inputs is not None and name not in inputs:
                raise ConfigError(f"dynamic_shapes: {unknown('input', str(name), inputs)}")
        pairs = [(name, inputs[name] if inputs is not None else None, one) for name, one in shapes.items()]
    elif isinstance(shapes, tuple | list):
        pairs = [(f"input {i}", value, one) for i, (value, one) in enumerate(zip(args, shapes, strict=False))]
    else:
        raise ConfigError(f"dynamic_shapes: expected a dict, input name -> axes, got {type(shapes).__name__}")
    for name, value, axes in pairs:
        if isinstance(value, torch.Tensor):
            _check_axes(name, value, axes)


def _name_inputs(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parameter of forward -> its example, or None where the signature does not tell names."""
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    kinds = {one.kind for one in bound.signature.parameters.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    return dict(bound.arguments)


def _check_axes(name: str, value: torch.Tensor, axes: Any) -> None:
    for axis, dim in list_parts(axes):
        if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
            kind = f"{value.dim()} axes, 0 to {value.dim() - 1}" if value.dim() else "no axes"
            raise ConfigError(f"dynamic_shapes: {name} has {kind}; got axis {axis!r}")
        if isinstance(dim, str):
            raise ConfigError(f"dynamic_shapes: {name}, axis {axis}: expected torch.export.Dim({dim!r}), got a text")
        least, most = getattr(dim, "min", None), getattr(dim, "max", None)
        size = value.shape[axis]
        if isinstance(least, int) and isinstance(most, int) and not least <= size <= most:
            limits = f"from {least} to {most}" if most < _LONGEST else f"from {least} on"
            raise ConfigError(
                f"dynamic_shapes: {name}, axis {axis}: {getattr(dim, '__name__', dim)} goes {limits}, and the example "
                f"input has {size}"
            )


_CONSTRAINTS = ("Constraints violated", "Found the following conflicts between user-specified ranges")
_FIXED = (
    re.compile(r"You marked (?P<size>.+?) as dynamic but your code specialized it to be a constant \((?P<value>\d+)\)"),
    re.compile(r"export 0/1 specialized due to hint of (?P<value>\d+) for dimension (?P<size>\S+?)\.?$"),
)
_SIZE = re.compile(r"(?:L|inputs)\['(\w+)'\]((?:\[[^\]]*\])*)\.(?:size\(\)|shape)\[(\d+)\]")
"""How torch names a size of an input: ``L['x'].size()[0]`` or ``inputs['x'].shape[0]``."""


def describe_constraints(lines: Sequence[str]) -> str | None:
    """What a model demands of sizes that `dynamic_shapes` lets vary; None if torch's error is about something else.

    Args:
        lines: of the text of the error. Each line that begins with ``- `` has one reason.
    """
    if not lines[0].startswith(_CONSTRAINTS):
        return None
    reasons = dict.fromkeys(_describe_reason(line[2:]) for line in lines if line.startswith("- "))
    return "; ".join(["dynamic_shapes do not fit the model", *reasons])


def _describe_reason(text: str) -> str:
    fixed = next((found for pattern in _FIXED if (found := pattern.search(text))), None)
    if fixed is None:
        return _name_sizes(text)
    size, value = _name_sizes(fixed["size"]), int(fixed["value"])
    dim, least = _find_dim(size, value)
    if least < 2:
        return (
            f"{dim} is {least} in the example input, and torch takes sizes of 0 and 1 as fixed: use an example input "
            f"in which {dim} is 2 or more"
        )
    return (
        f"{size} can only be {value}, because the model's code fixes it, or combines it with a size of {value} of an "
        f"input that dynamic_shapes leaves out: name that size there, too, remove {size} from dynamic_shapes, or "
        "change the code"
    )


_DERIVED = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<dim>[A-Za-z_]\w*)(?: (?P<sign>[+-]) (?P<offset>\d+))?")
"""How torch names a size that follows from a Dim: ``3*b`` or ``3*b + 1``."""


def _find_dim(size: str, value: int) -> tuple[str, int]:
    """The Dim that a size of `value` follows from, and what it is then; any other size and its value as they are."""
    found = _DERIVED.fullmatch(size)
    if found is None:
        return size, value
    offset = int(f"{found['sign'] or ''}{found['offset'] or 0}")
    return found["dim"], (value - offset) // int(found["factor"] or 1)


def _name_sizes(text: str) -> str:
    """The text with sizes of inputs as in Python: ``x.shape[0]``."""
    return _SIZE.sub(r"\1\2.shape[\3]", text)
