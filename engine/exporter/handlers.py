"""The table of handlers: the function that translates each ATen overload, and its arguments. Knows no graph.

A handler's parameters after the context are those of the schema. It may leave out arguments in `COMMON` and those that
it declares `harmless`, with a reason. A test compares them with the schema, so that no keyword is dropped unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.exporter.torch_internals import OpOverload, has_results, schema_arguments


class Refusal(Exception):
    """Raised by a handler if it cannot translate a call. The text is the reason."""


class FaultyCall(Refusal):
    """A call that torch refuses, too, when it runs it: `Config.fallback` is no way out."""


@dataclass(frozen=True)
class CommonArgument:
    """An argument that handlers do not need, and why. `refusal` gives the reason to refuse a value, or None."""

    why: str
    refusal: Callable[[Any], str | None]


DEVICES = ("cpu", "cuda")
"""Types of devices from which models are taken."""


def _any_value(_value: Any) -> str | None:
    return None


def _known_device(device: Any) -> str | None:
    if device is None or torch.device(device).type in DEVICES:
        return None
    return f"device {device} is requested, only {' and '.join(DEVICES)} are supported"


def _only_strided(layout: Any) -> str | None:
    return None if layout is None or layout is torch.strided else f"layout {layout} is not supported"


COMMON: dict[str, CommonArgument] = {
    "device": CommonArgument("gives the place of values, which the target of the program decides", _known_device),
    "layout": CommonArgument("dense is the only layout", _only_strided),
    "memory_format": CommonArgument("gives the layout of values in memory, not their elements", _any_value),
    "pin_memory": CommonArgument("gives the place of values in memory, not their elements", _any_value),
    "non_blocking": CommonArgument("copies within one device are synchronous", _any_value),
    "copy": CommonArgument("values of a graph never change, so a copy equals its original", _any_value),
    "implicit": CommonArgument("tells whether the user wrote the expansion, not what it computes", _any_value),
}
FROM_META = "the handler reads the result's element type, which torch has inferred from this argument"


@dataclass(frozen=True)
class Handler:
    """One row of the table. ``translate(context, **arguments)`` gives a value, or a list of values.

    `harmless` has arguments that it does not take, with the reason; `renamed` maps the schema's names to its own.
    """

    overload: OpOverload
    translate: Callable[..., Any]
    harmless: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


HANDLERS: dict[OpOverload, Handler] = {}
REFUSED: dict[str, str] = {}
"""Overloads that are always refused, by full name, each with a more specific reason than that no handler exists."""

FOREIGN: dict[str, Callable[[OpOverload], Handler]] = {}
"""Overloads of other packages by full name, such as ``torchao.dequantize_affine.default``: what makes the handler of an
overload. The package that registers them with torch need not be installed."""

Translator = Callable[..., Any]


def overload(name: str) -> OpOverload:
    """The overload ``add.Tensor``, or ``engine::selective_scan`` of another library; AttributeError without one."""
    library, _, call = name.rpartition("::")
    packet, _, which = call.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, library or "aten"), packet), which or "default")
    return found


DROPPED: dict[OpOverload, str] = {
    overload("_assert_tensor_metadata"): "restates types that the example inputs fixed; a call checks its inputs",
    overload("_assert_scalar"): "guards record those on sizes of a call; sizes from data are refused elsewhere",
    overload("sym_constrain_range"): "bounds a size that depends on data; the call that makes such a size is refused",
    overload("sym_constrain_range_for_size"): "as sym_constrain_range",
}
"""Overloads without a result whose calls are dropped, each with the reason."""


def aten(
    *names: str, harmless: Mapping[str, str] | None = None, renamed: Mapping[str, str] | None = None
) -> Callable[[Translator], Translator]:
    """Register a function for overloads, whose schemas may lack its defaulted, `harmless` and `renamed` parameters."""

    def register(translate: Translator) -> Translator:
        for name in names:
            key = overload(name)
            if key in HANDLERS:
                raise ValueError(f"{key} has two handlers")
            known = {argument.name for argument in schema_arguments(key)}
            excused = {one: why for one, why in (harmless or {}).items() if one in known}
            HANDLERS[key] = Handler(key, translate, excused, renamed or {})
        return translate

    return register


def refused(reason: str, *names: str) -> None:
    """Refuse overloads of ATen by name, those of other libraries by full name, all with the same reason."""
    REFUSED.update({name if name.count(".") == 2 else str(overload(name)): reason for name in names})


def foreign(*names: str, harmless: Mapping[str, str] | None = None) -> Callable[[Translator], Translator]:
    """As `aten`, for overloads of other libraries, by full name."""

    def register(translate: Translator) -> Translator:
        def make(target: OpOverload) -> Handler:
            return Handler(target, translate, dict(harmless or {}))

        FOREIGN.update(dict.fromkeys(names, make))
        return translate

    return register


def find_handler(target: OpOverload) -> Handler:
    """The handler of an overload. Refusal, which says why, if there is none."""
    if target in HANDLERS:
        return HANDLERS[target]
    if str(target) in FOREIGN:
        return FOREIGN[str(target)](target)
    raise Refusal(REFUSED.get(str(target), "no handler"))


def is_known(target: OpOverload) -> bool:
    """True for an overload that has a handler, is refused or is dropped, so that torch must not decompose it."""
    return target in HANDLERS or target in DROPPED or str(target) in REFUSED or str(target) in FOREIGN


def runs_for_effect(target: OpOverload) -> bool:
    """True if the overload returns nothing and is not in `DROPPED`. It is called for its effect and must always run."""
    return not has_results(target) and target not in DROPPED


def kept_whole() -> tuple[OpOverload, ...]:
    """The overloads with a handler or an entry in `FOREIGN` that torch knows now, for AOT autograd to leave alone."""
    return (*HANDLERS, *filter(None, map(_find_overload, FOREIGN)))


def _find_overload(name: str) -> OpOverload | None:
    """The overload of this full name; None if no package has registered it with torch."""
    library, call, which = name.split(".")
    packet = getattr(getattr(torch.ops, library), call, None)
    found: OpOverload | None = getattr(packet, which, None)
    return found


def bind(handler: Handler, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The handler's arguments by name, with the schema's defaults. Refusal for an unsupported common argument."""
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
        bound[handler.renamed.get(name, name)] = value
    return bound
