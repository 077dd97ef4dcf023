"""Hands `dynamic_shapes` to torch.export, and says which sizes a program takes fewer of than they allow."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch.export import Dim, ShapesCollection
from torch.fx import Node

from engine.errors import ConfigError
from engine.exporter.symbols import Ranges, get_expression, list_dims

_LONGEST = 2**31
"""torch gives this size, or more, to a Dim without a maximum."""

_LEAST_OF_HINT = 2
"""torch begins the range of `Dim.AUTO` and `Dim.DYNAMIC` here; it takes sizes of 0 and 1 as fixed."""

_Hint = type(Dim.AUTO)


def resolve_dynamic_shapes(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any) -> Any:
    """`shapes`, as a user gave them, by name of the input and with axes counted from 0; None: all sizes are fixed.

    torch.export checks the rest, but it ignores an axis that an input does not have: ConfigError.
    """
    if isinstance(shapes, ShapesCollection):
        try:
            shapes = shapes.dynamic_shapes(model, tuple(args), dict(kwargs))
        except ValueError as error:  # it has a tensor that is no input
            raise ConfigError(f"dynamic_shapes: {error}") from None
    if shapes is None or shapes in ({}, (), []):
        return None
    try:
        inputs = dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # torch says it
        return shapes
    if isinstance(shapes, tuple | list) and len(shapes) == len(inputs):
        shapes = dict(zip(inputs, shapes, strict=True))
    if not isinstance(shapes, Mapping):
        return shapes
    return {name: _count_from_0(str(name), inputs.get(name), one) for name, one in shapes.items()}


def _count_from_0(name: str, value: Any, shape: Any) -> Any:
    """The dynamic shapes `shape` of the example input `value`, with axes counted from 0."""
    if isinstance(value, torch.Tensor) and isinstance(shape, Mapping):
        for axis in shape:
            if type(axis) is not int or not -value.dim() <= axis < value.dim():
                raise ConfigError(f"dynamic_shapes: {name} has {value.dim()} axes; got axis {axis!r}")
        return {axis % value.dim(): one for axis, one in shape.items()}
    if type(value) is dict and isinstance(shape, Mapping):
        return {key: _count_from_0(f"{name}[{key!r}]", value.get(key), one) for key, one in shape.items()}
    if type(value) in (list, tuple) and type(shape) is type(value) and len(shape) == len(value):
        pairs = enumerate(zip(value, shape, strict=True))
        return type(shape)(_count_from_0(f"{name}[{n}]", one, part) for n, (one, part) in pairs)
    return shape


def list_narrowed(
    shapes: Mapping[str, Any] | None, inputs: Sequence[Node], ranges: Ranges, least: Mapping[Any, int]
) -> list[str]:
    """A text such as ``x.shape[0] from 4 to 16 (...)`` for each size whose range the capture has made smaller.

    torch assumes 2 or more for a size that another one is a formula of, and for `Dim.AUTO` and `Dim.DYNAMIC`; and it
    restricts these two to the sizes that take the same branches as the example. For `Dim.AUTO` that may be one size. A
    symbol with several axes is named at the first one. `least` has symbols that begin higher than torch's capture,
    because the model takes another path below.
    """
    found: dict[Any, str] = {}
    for node, axis, dim in list_dims(shapes, inputs):
        place, expression = f"{node.name}.shape[{axis}]", get_expression(node, axis)
        if not isinstance(dim, Dim | _Hint):
            continue
        if expression is None or expression.is_number:
            if isinstance(dim, _Hint) and dim.type is Dim.AUTO.type:
                size = int(node.meta["val"].shape[axis])
                found[place] = f"{place} = {size} (the model's code fixes it, or torch, which fixes sizes of 0 and 1)"
            continue
        symbols = expression.free_symbols & ranges.keys()
        if len(symbols) > 1 and isinstance(dim, Dim):
            found[place] = f"{place} as it follows from other sizes (torch takes it so; dynamic_shapes name it)"
        if len(symbols) != 1:
            continue
        (symbol,) = symbols
        start, most = _find_limits(dim)
        low, high = (_limit_of(expression, symbol, end) for end in (ranges[symbol].lower, ranges[symbol].upper))
        if low > start or high < (_LONGEST if most is None else most):
            taken = _write_range(low, high if high < _LONGEST else None)
            reason = "the model takes another path below" if symbol in least else "torch restricts it so"
            found.setdefault(symbol, f"{place} {taken} ({reason}; dynamic_shapes have {_write_range(start, most)})")
    return list(found.values())


def _limit_of(expression: Any, symbol: Any, end: Any) -> int:
    """The size `expression` where its symbol is at an end of its range; `_LONGEST` where the range has no end."""
    return int(expression.xreplace({symbol: end})) if isinstance(end, int | sympy.Integer) else _LONGEST


def _find_limits(dim: Any) -> tuple[int, int | None]:
    """Least and largest size that a Dim allows; None where it has no limit."""
    root, formula = getattr(dim, "root", dim), getattr(dim, "fn", int)
    least = _LEAST_OF_HINT if root.min is None else formula(root.min)
    most = formula(root.max) if isinstance(root.max, int) and formula(root.max) < _LONGEST else None
    return least, most


def _write_range(least: int, most: int | None) -> str:
    if least == most:
        return f"= {least}"
    return f"from {least} on" if most is None else f"from {least} to {most}"
