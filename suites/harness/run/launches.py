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
from suites.harness.record.launches import KernelRecord, NodeRecord
from suites.harness.record.roofs import Roofs
from suites.harness.record.schema import BackendRecord, Environment, Plan


@dataclass(frozen=True)
class NewRun:
    """A run that is about to be measured.

    Attributes:
        path: the file that `write` makes.
        environment: its first line.
    """

    path: Path
    environment: Environment

    def write(self, lines: Sequence[KernelRecord | NodeRecord]) -> Path:
        """Write the file with these lines, and return its path.

        Raises:
            UsageError: the file cannot be written.
        """
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
        plan: what is asked for; its name is that of the suite.
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
    """A plan without cases.

    Args:
        name: of the suite.
        description: of the suite.
        baseline: what speeds are against.
        options: of the command that measures.
        rounds: how often everything is measured.
    """
    return Plan(
        name=name,
        description=description,
        baseline=baseline,
        rounds=rounds,
        samples_per_round=1,
        generations=1,
        generation_budget_s=0.0,
        same_within=SAME_WITHIN,
        timeouts={},
        cases={},
        options=list(options),
    )
