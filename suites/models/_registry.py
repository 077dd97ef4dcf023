"""From a name to its `ModelSpec`. Finds the model files by looking into the folder; knows none of them by name."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from engine.suggest import unknown
from suites.models import user
from suites.models._spec import ModelSpec, UnknownModel


def _declared() -> dict[str, ModelSpec]:
    files = pkgutil.iter_modules(sys.modules[__package__].__path__)
    names = [one.name for one in files if not one.ispkg and not one.name.startswith("_")]
    modules = [importlib.import_module(f"suites.models.{name}") for name in names]
    return {spec.name: spec for module in modules for spec in module.MODELS}


def names() -> tuple[str, ...]:
    """All declared names, sorted."""
    return tuple(sorted(_declared()))


def get(name: str) -> ModelSpec:
    """The model called `name`, or that of a user's file (see `suites.models.user`).

    Raises:
        UnknownModel: no such name (the message suggests the nearest one), or no such file.
        ModelError: the file cannot hold a model.
    """
    if user.is_path(name):
        return user.spec(name)
    declared = _declared()
    if name not in declared:
        raise UnknownModel(f"{unknown('model', name, declared)}, or {user.EXPECTED}")
    return declared[name]
