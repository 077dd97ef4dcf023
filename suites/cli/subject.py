"""A backend as the subject of ``minify``: runs a part of a model in the process of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suites import backends
from suites.backends.base import flatten
from suites.harness.declare.case import BackendRef


def find_scripts(name: str) -> Mapping[str, str]:
    """`Backend.scripts` of a backend; those of a class that it extends are not its own."""
    scripts: Mapping[str, str] = vars(backends.load(BackendRef(name))).get("scripts", {})
    return scripts


def list_able() -> list[str]:
    """Backends and precisions for which there is a script."""
    found = {name: find_scripts(name) for name in backends.BACKENDS}
    return [f"{name} ({', '.join(scripts)})" for name, scripts in found.items() if scripts]


def run(module: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> list[Any]:
    """The results of a module. `options`: ``label`` of the backend, ``precision`` of the module, ``threads``."""
    backend = backends.load(BackendRef(options["label"]))(options["threads"], {})
    backend.precision = options["precision"]
    backend.load()
    return flatten(backend.prepare(module, inputs).call(*inputs))
