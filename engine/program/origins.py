"""Writes and reads the origins of values in a file, repeated parts once, by number. The reader checks everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine import sizes
from engine.graph.origin import MOST_STEPS, Origin, ViewStep, ViewSteps
from engine.ops import TABLE, Op
from engine.program import formulas

Origins = Mapping[int, Origin]
"""Value -> origin; a value that equals no exported value is not a key."""
Attributes = Callable[[Op, Any, sizes.Scope], dict[str, Any]]
"""Reads the attributes of an op from their JSON form; ValueError for what the op does not have."""


NONE: Mapping[str, Any] = {"modules": [], "sources": [], "views": [], "values": []}
"""What stands for the origins of a file that has none, because no value of it has one."""


def encode(origins: Origins, of_nodes: Sequence[str] = ()) -> dict[str, Any]:
    """`origins`, and the module of each node, as JSON-able values.

    ``modules``, ``sources`` and ``views`` are lists without repetition. ``values`` has ``[value, name, module, source,
    view]`` with positions in these, and ``instructions`` the position of the module of each node.
    """
    modules: dict[str, int] = {}
    sources: dict[str, int] = {}
    numbers: dict[str, int] = {}
    views: list[Any] = []
    values = []
    for value, origin in sorted(origins.items(), key=lambda item: item[0]):
        view = [[op, {name: formulas.encode(v) for name, v in attributes.items()}] for op, attributes in origin.view]
        number = numbers.setdefault(repr(view), len(views))
        if number == len(views):
            views.append(view)
        module = modules.setdefault(origin.module, len(modules))
        source = sources.setdefault(origin.source, len(sources))
        values.append([value, origin.value, module, source, number])
    positions = [modules.setdefault(module, len(modules)) for module in of_nodes]
    return {
        "modules": list(modules),
        "sources": list(sources),
        "views": views,
        "values": values,
        "instructions": positions,
    }


def decode_modules(data: Mapping[str, Any], count: int) -> list[str] | None:
    """The modules of `count` nodes; None in a file of an earlier engine that has none. Raises as `decode`."""
    if "instructions" not in data:
        return None
    modules = [_text(text) for text in data["modules"]]
    if len(data["instructions"]) != count:
        raise ValueError(f"not the modules of {count} nodes")
    return [_item(modules, position) for position in data["instructions"]]


def decode(data: Mapping[str, Any], count: int, scope: sizes.Scope, attributes: Attributes) -> dict[int, Origin]:
    """The origins in `data`, of a graph of `count` values. ValueError, LookupError or TypeError if malformed."""
    modules, sources = ([_text(text) for text in data[key]] for key in ("modules", "sources"))
    views = [_view(view, scope, attributes) for view in data["views"]]
    found: dict[int, Origin] = {}
    for value, name, module, source, view in data["values"]:
        if _position(value, count) in found:
            raise ValueError(f"value {value} has two origins")
        module, source = _item(modules, module), _item(sources, source)
        found[value] = Origin(_text(name), module, source, _item(views, view))
    return found


def _view(data: Any, scope: sizes.Scope, attributes: Attributes) -> ViewSteps:
    if not isinstance(data, list) or len(data) > MOST_STEPS:
        raise ValueError(f"not a chain of up to {MOST_STEPS} views")
    steps = tuple(ViewStep(op, attributes(TABLE[op], values, scope)) for op, values in data)
    for op, _attributes in steps:
        if TABLE[op].view is None:
            raise ValueError(f"{op} is no view")
    return steps


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"not a text: {value!r}")
    return value


def _position(value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"not one of {count}: {value!r}")
    return value


def _item(items: Sequence[Any], position: Any) -> Any:
    return items[_position(position, len(items))]
