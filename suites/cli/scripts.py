"""What the scripts of tables share: models named on the command line, a suite without a file, a model taken apart."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from suites import models
from suites.harness.declare.case import Scalar
from suites.harness.declare.spec import Suite, of_model
from suites.harness.judge import ablation
from suites.harness.present import progress
from suites.harness.record import store
from suites.harness.run import ablate, plan, runner


def models_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of a command line that names models; a script may add arguments of its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="see `enginebench list models`; also path.py:factory")
    return parser


def check_models(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """End the script where one of `names` is unknown, with the nearest known name."""
    for name in names:
        try:
            models.get(name)
        except EngineError as e:
            parser.error(str(e))


def chosen_models(description: str | None, default: Iterable[str]) -> list[str]:
    """Names from the command line, or `default`. An unknown one ends the script with the nearest known name."""
    parser = models_parser(description)
    names: list[str] = parser.parse_args().model
    check_models(parser, names)
    return names or list(default)


def measured(name: str, labels: Sequence[str], sweeps: Sequence[Mapping[str, Any]], **settings: Any) -> runner.Outcome:
    """A run of a suite that is declared here: ``[[models]]`` entries, and the other keys of a suite file."""
    return run(Suite.model_validate({"name": name, "backends": list(labels), "models": list(sweeps), **settings}))


def run(suite: Suite, results: Path | None = None) -> runner.Outcome:
    """A run of `suite`, stored under `results`; None: among the others."""
    with progress.reporter() as reporter:
        return runner.run(plan.make(suite), store.results_folder(results), reporter)


def taken_apart(
    name: str,
    model: str,
    options: Mapping[str, Scalar] | None = None,
    *,
    backend: str = "engine",
    switches: Sequence[str] | None = None,
    modes: Sequence[str] = ablation.MODES,
    threads: int = 1,
    generations: int = 4,
) -> ablate.Outcome:
    """A backend taken apart on a model at its default size, stored as run `name`."""
    fields = {"backends": [backend], "baseline": backend, "threads": threads, "generations": generations}
    suite = of_model(model, options or {}, name=name, **fields)
    cases = [case for case, _ in suite.cases()]
    request = ablate.Request(suite, cases, ablate.of_backend(backend, switches), modes)
    with progress.reporter() as reporter:
        return ablate.run(request, store.results_folder(None), reporter)
