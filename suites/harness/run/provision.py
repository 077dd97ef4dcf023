"""What a machine pays once for a backend, done before anything is measured, so that no case pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suites import backends
from suites.harness.declare.case import BackendRef, Case
from suites.harness.run import checks
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import Worker, WorkerFailed, scratch_folder


def provision(
    case: Case, refs: Sequence[BackendRef], seed: Path, folder: Path, done: set[str], reporter: Reporter
) -> None:
    """Have each backend that needs it do, once a run, what a machine pays once. A failure shows in its rows."""
    for ref in refs:
        declared = backends.BACKENDS.get(ref.name)
        if declared is None or not declared.provisions or ref.name in done or checks.unavailable(case, ref):
            continue
        done.add(ref.name)
        reporter.doing(f"{ref.name}: what a machine pays once")
        try:
            with Worker(case, ref, scratch_folder(folder, f"provision_{ref.name}"), seed) as worker:
                worker.ask("load", 120)
                worker.ask("provision", 300)
        except WorkerFailed as failure:
            reporter.say(f"{ref.name}: {failure.reason}")
