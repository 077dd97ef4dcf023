"""From a name to its `ModelSpec`. Finds the model files by looking into the folder; knows none of them by name."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from engine.suggest import unknown
from suites.models import user
from suites.models._spec import ModelError, ModelSpec, UnknownModel


def _declared() -> dict[str, ModelSpec]:
    found: dict[str, ModelSpec] = {}
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__):
        if module.ispkg or module.name.startswith("_"):
            continue
        for spec in importlib.import_module(f"suites.models.{module.name}").MODELS:
            if spec.name in found:
                raise ModelError(f"model {spec.name} is declared twice, again in suites/models/{module.name}.py")
            found[spec.name] = spec
    return found


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
