"""Stores a run that has no cases: kernels by themselves, or the launches of a profile. Measures only the roofs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.harness.declare.case import SAME_WITHIN
from suites.harness.declare.device import CPU
from suites.harness.measure import device
from suites.harness.record import machine, store
from suites.harness.record.launches import KernelRecord, NodeRecord, OperationRecord
from suites.harness.record.roofs import Roofs
from suites.harness.record.schema import BackendRecord, Environment, Plan


@dataclass(frozen=True)
class NewRun:
    """The file that `write` makes, and its first line."""

    path: Path
    environment: Environment

    def write(self, lines: Sequence[KernelRecord | NodeRecord | OperationRecord]) -> Path:
        """Write the file with these lines, and return its path; UsageError if it cannot be written."""
        with store.Writer(self.path) as writer:
            writer.append(self.environment, *lines)
        return self.path


def begin(
    results: Path,
    plan: Plan,
    threads: int,
    measure_roofs: Callable[[], Roofs],
    backends: Mapping[str, BackendRecord] | None = None,
) -> NewRun:
    """The file and the first line of a run. Call it before anything is measured: it notes when the run began.

    Args:
        results: the results folder.
        plan: as `make_plan` returns it.
        threads: of all lines.
        measure_roofs: measures what the machine can do at most.
        backends: label -> what the backend is.
    """
    asked = json.dumps(plan.model_dump(), sort_keys=True)
    environment = Environment(
        **machine.environment(),
        threads=[threads],
        devices={CPU: dict(device.load(CPU).facts())},
        roofs=measure_roofs(),
        suite=plan.name,
        plan=plan,
        plan_digest=hashlib.sha256(asked.encode()).hexdigest()[:16],
        backends=dict(backends or {}),
    )
    return NewRun(store.new_path(results, plan.name, environment), environment)


def make_plan(name: str, description: str, baseline: str, options: Sequence[str], rounds: int = 1) -> Plan:
    """A plan without cases: of the suite `name`, with `options` of the command that measures everything `rounds` times.

    Speeds are against `baseline`.
    """
    asked = {"name": name, "description": description, "baseline": baseline, "rounds": rounds, "options": list(options)}
    counts = {"samples_per_round": 1, "generations": 1, "generation_budget_s": 0.0}
    return Plan.model_validate({**asked, **counts, "same_within": SAME_WITHIN, "timeouts": {}, "cases": {}})
