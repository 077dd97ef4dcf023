"""which function translates which ATen overload, and how a call's arguments reach it. Owns the table; knows no graph.

A handler's parameters after the context are the names of the overload's schema. Two kinds of arguments may be left
out, each with its reason written down: those that mean the same wherever they occur (`COMMON`), and those that a
single overload declares `harmless`. A test compares all three with torch's schema, so that no keyword can be dropped
unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.exporter.torch_internals import OpOverload, schema_arguments


class Refusal(Exception):
    """Raised by a handler: this use of an op cannot be translated. The text is the reason."""


@dataclass(frozen=True)
class CommonArgument:
    """An argument that many overloads share.

    Attributes:
        why: why a handler need not see it.
        refusal: the value -> the reason to refuse it, or None.
    """

    why: str
    refusal: Callable[[Any], str | None]


def _any_value(_value: Any) -> str | None:
    return None


def _only_cpu(device: Any) -> str | None:
    if device is None or torch.device(device).type == "cpu":
        return None
    return f"device {device} is asked for, only cpu is supported"


def _only_strided(layout: Any) -> str | None:
    return None if layout is None or layout is torch.strided else f"layout {layout} is not supported"


COMMON: dict[str, CommonArgument] = {
    "device": CommonArgument("the cpu is the only device", _only_cpu),
    "layout": CommonArgument("dense is the only layout", _only_strided),
    "memory_format": CommonArgument("says how values lie in memory, never what they are", _any_value),
    "pin_memory": CommonArgument("says where values lie in memory, never what they are", _any_value),
    "non_blocking": CommonArgument("copies within one device are synchronous", _any_value),
    "copy": CommonArgument("values of a graph never change, so a copy equals its original", _any_value),
    "implicit": CommonArgument("notes who asked for the expansion, never what it is", _any_value),
}
FROM_META = "the result's element type, as torch inferred it, follows this argument; the handler reads it there"


@dataclass(frozen=True)
class Handler:
    """One row of the table.

    Attributes:
        overload: which one is translated.
        translate: ``translate(context, **arguments)`` -> a value, or a list of values.
        harmless: arguments that `translate` does not take, each with the reason why it cannot matter.
    """

    overload: OpOverload
    translate: Callable[..., Any]
    harmless: Mapping[str, str] = field(default_factory=dict)


HANDLERS: dict[OpOverload, Handler] = {}
REFUSED: dict[OpOverload, str] = {}
"""Overloads that are refused whatever their arguments, with a better reason than that no handler exists."""

Translator = Callable[..., Any]


def overload(name: str) -> OpOverload:
    """The overload called for example ``add.Tensor``, or ``engine::selective_scan`` of another library than ATen.

    AttributeError where torch has none.
    """
    library, _, call = name.rpartition("::")
    packet, _, which = call.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, library or "aten"), packet), which or "default")
    return found


DROPPED: dict[OpOverload, str] = {
    overload("_assert_tensor_metadata"): "restates types that the example inputs fixed; a call checks its inputs",
    overload("_assert_scalar"): "of sizes: noted as a guard; sizes that depend on data are refused elsewhere",
    overload("sym_constrain_range"): "bounds a size that depends on data, which is refused where it is made",
    overload("sym_constrain_range_for_size"): "as sym_constrain_range",
}
"""Overloads without a result whose calls need not run, each with the reason."""


def aten(*names: str, harmless: Mapping[str, str] | None = None) -> Callable[[Translator], Translator]:
    """Register the decorated function for overloads whose schemas name the same arguments."""

    def register(translate: Translator) -> Translator:
        for name in names:
            key = overload(name)
            if key in HANDLERS:
                raise ValueError(f"{key} has two handlers")
            HANDLERS[key] = Handler(key, translate, dict(harmless or {}))
        return translate

    return register


def refused(reason: str, *names: str) -> None:
    """Refuse overloads by name with one reason."""
    REFUSED.update({overload(name): reason for name in names})


def bind(handler: Handler, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument that the handler takes, by name, defaults of the schema filled in.

    Raises:
        Refusal: a common argument has a value that is not supported.
    """
    bound: dict[str, Any] = {}
    for position, argument in enumerate(schema_arguments(handler.overload)):
        name = argument.name
        value = args[position] if position < len(args) else kwargs.get(name, argument.default_value)
        if name in handler.harmless:
            continue
        if name in COMMON:
            reason = COMMON[name].refusal(value)
            if reason is not None:
                raise Refusal(reason)
            continue
        bound[name] = value
    return bound
