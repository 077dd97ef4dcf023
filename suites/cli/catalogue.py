"""What can be listed: one function a kind, each giving rows of plain values. Imports only what its kind needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from suites.harness.errors import UsageError

Row = dict[str, Any]
Kind = Literal["models", "suites", "backends", "switches", "ops", "runs"]


def rows(kind: Kind, results: Path, limit: int | None = None) -> list[Row]:
    """Rows of one kind, at most `limit`; `results` is where runs lie."""
    return list(itertools.islice(_KINDS[kind](results), limit))


def _models(_: Path) -> list[Row]:
    from suites import models

    specs = [models.get(name) for name in models.names()]
    return [
        {
            "name": one.name,
            "summary": one.summary,
            "shape": dict(one.shape_keys),
            "options": {key: option.default for key, option in one.options.items()},
            "unavailable": one.unavailable(),
        }
        for one in specs
    ]


def _suites(_: Path) -> list[Row]:
    from suites.harness.declare import spec

    found = []
    for path in spec.shipped().values():
        suite = spec.load(path)
        cases = list(suite.cases())
        of_models = (label for sweep in suite.models for label in sweep.backends or ())
        found.append(
            {
                "name": suite.name,
                "description": suite.description,
                "cases": len(cases),
                "backends": list(dict.fromkeys((*suite.backends, *of_models))),
                "threads": sorted({case.threads for case, _ in cases}),
            }
        )
    return found


def _backends(_: Path) -> list[Row]:
    from suites import backends
    from suites.backends import versions
    from suites.harness.declare.case import BackendRef

    found: list[Row] = [
        {
            "name": one.name,
            "summary": one.summary,
            "precisions": list(one.precisions),
            "devices": list(one.devices),
            "switches": list(one.switches),
            "unavailable": backends.unavailable(BackendRef(one.name)),
        }
        for one in backends.BACKENDS.values()
    ]
    engine = backends.BACKENDS[versions.ENGINE]
    able = {"precisions": list(engine.precisions), "devices": list(engine.devices), "switches": list(engine.switches)}
    summary = "the engine of another checkout (with .venv) or environment, in a process of its own"
    return [*found, {"name": f"{versions.PREFIX}PATH", "summary": summary, **able, "unavailable": None}]


def _switches(_: Path) -> list[Row]:
    """The engine's, then the switches of the other backends."""
    from engine.config import all_switches
    from suites import backends
    from suites.harness.declare.case import BackendRef

    found: list[Row] = [
        {"backend": "engine", "kind": one.kind, "name": one.name, "default": one.default, "summary": one.summary}
        for one in all_switches()
    ]
    for name in (name for name in backends.BACKENDS if not backends.ours(BackendRef(name))):
        for switch in backends.load(BackendRef(name)).switches():
            options = ",".join(f"{key}={value}" for key, value in switch.without.items())
            summary = f"left out, or put in its place, by {name}[{options}]"
            row = {"backend": name, "kind": switch.kind, "name": switch.name, "default": None, "summary": summary}
            found.append(row)
    return found


def _ops(_: Path) -> list[Row]:
    """ATen calls, and for each op that they become this build's kernels by instruction set, best first."""
    from engine import targets
    from engine.exporter import coverage

    by_op: dict[str, dict[str, list[str]]] = {}
    for kernel in targets.get("cpu").kernels():
        by_op.setdefault(kernel.op, {}).setdefault(kernel.isa, []).append(kernel.variant)
    shown = {
        op: "; ".join(f"{isa} {', '.join(variants)}" for isa, variants in by_isa.items())
        for op, by_isa in by_op.items()
    }
    return [
        {
            **row,
            "targets": list(coverage.TARGETS),
            "kernels": {op: shown[op] for op in row["ops"] if op in shown},  # a view has none
        }
        for row in coverage.rows()
    ]


def _runs(results: Path) -> Iterator[Row]:
    """Stored runs, newest first. A row is read when it is asked for."""
    from suites.harness.record import lookup, store, superseded

    faults = superseded.known(results)
    for path in sorted(store.all_run_files(results), key=lambda path: path.name, reverse=True):
        about = {"run": path.stem, "machine": path.parent.name}
        try:
            run = store.read(path)
        except UsageError as error:
            yield {**about, "rows": None, "state": str(error), "superseded": None}
            continue
        concerned = [f"{', '.join(one.backends)}: {one.reason}" for one in faults.of_run(run.name)] or None
        state = run.unfinished or "complete"
        yield {**about, "rows": lookup.count_rows(run), "state": state, "superseded": concerned}


_KINDS: dict[Kind, Callable[[Path], Iterable[Row]]] = {
    "models": _models,
    "suites": _suites,
    "backends": _backends,
    "switches": _switches,
    "ops": _ops,
    "runs": _runs,
}
