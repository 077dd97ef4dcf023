"""Prints what a model goes through on its way to the first output: modules entered, classes of which objects are made.

    python -m tools.walk

A three-layer MLP is compiled and called once, under Python's profiler hook. Each module of `engine` that runs code is
one line, in the order in which it is entered, with its classes that are instantiated; those of other modules, whose
objects C makes (as of some named tuples), come last. Nothing is counted at import: all modules are imported before.
What C does is not seen.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import nn

import engine


def import_all() -> list[ModuleType]:
    """Every module of the engine that can be imported here; those of Triton need a package that may be missing."""
    found = [engine]
    for one in pkgutil.walk_packages(engine.__path__, "engine."):
        try:
            found.append(importlib.import_module(one.name))
        except ImportError as error:
            print(f"left out: {one.name}: {error}")
    return found


def find_classes(modules: list[ModuleType]) -> list[type]:
    """The classes that the modules define."""
    members = (value for module in modules for value in vars(module).values() if inspect.isclass(value))
    return [one for one in dict.fromkeys(members) if one.__module__.partition(".")[0] == "engine"]


def watch_classes(classes: list[type], made: dict[type, int]) -> None:
    """Count in `made` each object of `classes` that is created from now on, for the rest of the process."""

    def counting(create: Callable[..., Any]) -> Callable[..., Any]:
        def new(cls: type, *args: Any, **kwargs: Any) -> Any:
            made[cls] = made.get(cls, 0) + 1
            return create(cls) if create is object.__new__ else create(cls, *args, **kwargs)

        return new

    creators = {one: one.__new__ for one in classes}
    for one, create in creators.items():
        if not any(base in creators for base in one.__mro__[1:]) or "__new__" in vars(one):
            one.__new__ = staticmethod(counting(create))  # type: ignore[method-assign]


def walk(act: Callable[[], object], modules: list[ModuleType]) -> tuple[dict[str, int], dict[type, int]]:
    """Run `act`; the calls into each module by its name, and the objects of each class, in the order of the first."""
    names = {module.__file__: module.__name__ for module in modules}
    entered: dict[str, int] = {}
    made: dict[type, int] = {}

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (name := names.get(frame.f_code.co_filename)) is not None:
            entered[name] = entered.get(name, 0) + 1

    watch_classes(find_classes(modules), made)
    sys.setprofile(enter)
    try:
        act()
    finally:
        sys.setprofile(None)
    return entered, made


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    layers = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 16)
    modules = import_all()
    torch.export.export(model, (x,))  # torch prepares itself at its first export
    entered, made = walk(lambda: engine.compile(model, (x,))(x), modules)
    quiet = {one.__module__: 0 for one in made if one.__module__ not in entered}
    for name, calls in (entered | quiet).items():
        classes = ", ".join(one.__qualname__ for one in made if one.__module__ == name)
        print(f"{name:44} {calls:6} calls  {classes}")
    print(f"{len(entered)} modules entered, {len(made)} classes instantiated")


if __name__ == "__main__":
    main()
