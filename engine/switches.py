"""The registry of switches: passes, planners, kernel variants, instruction sets and targets.

A module registers its switches when it is imported, and `import engine` imports all such modules, so `Config` checks
names without importing these modules itself. Imports only errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.errors import InternalError


@dataclass(frozen=True)
class Switch:
    """One choice of how a model is compiled or run.

    Attributes:
        kind: ``pass``, ``planner``, ``kernel``, or the name of the field of `Config`.
        name: the name, unique in its kind.
        default: its value in ``Config()``, as text.
        summary: one line.
        usual: False if an ablation tries it only when it is named explicitly.
        available: False if this machine cannot run it.
    """

    kind: str
    name: str
    default: str
    summary: str
    usual: bool = True
    available: bool = True


_registered: dict[str, dict[str, Switch]] = {}
_sources: dict[str, list[Callable[[], None]]] = {}
_loaders: dict[str, Callable[[str], Any]] = {}


def register(switch: Switch) -> None:
    """Add a switch. InternalError if its kind already has the name."""
    known = _registered.setdefault(switch.kind, {})
    if switch.name in known:
        raise InternalError(f"{switch.kind} {switch.name!r} is registered twice")
    known[switch.name] = switch


def register_source(kind: str, source: Callable[[], None]) -> None:
    """Register a function that is called once, before the switches of `kind` are first read; it may register more."""
    _sources.setdefault(kind, []).append(source)


def register_loader(kind: str, loader: Callable[[str], Any]) -> None:
    """Register the function that loads a user's object of this kind from a path; the object has a `name`."""
    _loaders[kind] = loader


def load(kind: str, path: str) -> Any:
    """The object that the user's `path` names, such as a pass. Raises as the loader of that kind."""
    return _loaders[kind](path)


def registered(kind: str) -> tuple[Switch, ...]:
    """The switches of one kind, in the order in which they were registered."""
    for source in _sources.pop(kind, ()):
        source()
    return tuple(_registered.get(kind, {}).values())


def variants_kind(target: str) -> str:
    """The kind of the switches that name kernel variants of a target; ``kernel`` unless it has a kind of its own."""
    own = f"kernel of {target}"
    return own if own in _registered or own in _sources else "kernel"


def names(kind: str) -> tuple[str, ...]:
    """The registered names of one kind."""
    return tuple(switch.name for switch in registered(kind))


def kernel_variants(kind: str = "kernel") -> dict[str, tuple[str, ...]]:
    """Op name -> names of its kernel variants, best first. They are registered as ``op=variant``."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names(kind):
        op, _, variant = name.partition("=")
        found[op] = (*found.get(op, ()), variant)
    return found
