"""What the pytest and asv fronts share: which pairs of case and backend a suite or a model declares.

Both measure each pair in a process of its own, by the same steps (`suites.harness.run.single`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites import backends as registry
from suites import models
from suites.backends import versions
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite

SUITE_VARIABLE = "ENGINEBENCH_SUITE"
DEFAULT_SUITE = "quick"
MODEL_BACKENDS = ("eager", "engine")
"""Who runs a model where nobody is named."""


@dataclass(frozen=True)
class Pair:
    """One thing to measure: a backend on a case, with the rounds and time limits of a suite."""

    case: Case
    ref: BackendRef
    suite: Suite


def suite_name() -> str:
    """The suite to run: that of the environment, else the quick one."""
    return os.environ.get(SUITE_VARIABLE) or DEFAULT_SUITE


def of_suite(suite: str, backends: Sequence[str] | None = None, folder: Path | None = None) -> list[Pair]:
    """Every case of a suite with each of its backends, or with `backends` instead.

    `suite` is a name, or a path relative to `folder`, the current one by default; `backends` has labels, as
    `resolve_labels` returns them.

    Raises:
        UsageError: no such suite or backend, or the suite is malformed.
    """
    path = (folder or Path.cwd()) / suite
    declared = spec.load(path if path.suffix == ".toml" and path.is_file() else spec.find(suite))
    return _pairs(_with_backends(declared, backends) if backends else declared)


def of_model(
    model: str,
    backends: Sequence[str] | None = None,
    folder: Path | None = None,
    *,
    threads: Any = 1,
    arguments: Mapping[str, Any] | None = None,
) -> list[Pair]:
    """A model with each of `backends`, by default eager and the engine, once for each number of threads.

    Args:
        model: a name, or ``path.py:factory`` with a path relative to `folder`, the current one by default.
        backends: labels, as `resolve_labels` returns them.
        folder: see `model`.
        threads: a number or several.
        arguments: sizes and options of the model.

    Raises:
        EngineError: an unknown model, backend or argument, or a value that does not fit.
    """
    placed = _absolute(model, folder or Path.cwd())
    suite = spec.of_model(placed, arguments or {}, name="model", backends=["eager"], threads=threads)
    return _pairs(_with_backends(suite, backends or MODEL_BACKENDS))


def resolve_labels(labels: Sequence[str], folder: Path) -> list[str]:
    """Labels of backends whose relative paths are relative to `folder`, for use anywhere.

    Raises:
        UsageError: an unknown backend or option, or a missing file.
    """
    resolved = [versions.resolve(_absolute(label, folder), folder) for label in labels]
    for label in resolved:
        registry.check(BackendRef.parse(label))
    return resolved


def _with_backends(suite: Suite, labels: Sequence[str]) -> Suite:
    """`suite` with exactly these backends for all of its models; the first one takes the place of the baseline."""
    sweeps = [sweep.model_copy(update={"backends": None}) for sweep in suite.models]
    return suite.model_copy(update={"backends": list(labels), "baseline": labels[0], "models": sweeps})


def _pairs(suite: Suite) -> list[Pair]:
    return [Pair(case, ref, suite) for case, refs in suite.cases() for ref in refs]


def _absolute(name: str, folder: Path) -> str:
    """The name of a user's file with a relative path placed under `folder`; any other name as it is."""
    return str(folder / name) if (".py:" in name or models.is_path(name)) and not name.startswith("~") else name
