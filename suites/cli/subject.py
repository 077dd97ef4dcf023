"""A backend as the subject of ``minify``: runs a part of a model in the process of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suites import backends
from suites.backends.base import flatten
from suites.harness.declare.case import BackendRef


def list_able() -> list[str]:
    """Names of the backends for which there is a script."""
    return [name for name in backends.BACKENDS if backends.load(BackendRef(name)).script]


def run(module: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> list[Any]:
    """The results of a module. `options`: ``label`` of the backend, ``precision`` of the module, ``threads``."""
    backend = backends.load(BackendRef(options["label"]))(options["threads"], {})
    backend.precision = options["precision"]
    backend.load()
    return flatten(backend.prepare(module, inputs).call(*inputs))
