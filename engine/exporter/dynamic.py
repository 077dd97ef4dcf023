"""Checks `dynamic_shapes` against the example inputs, before torch does so in its own words."""

from __future__ import annotations

import inspect
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
