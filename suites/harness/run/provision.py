"""What a machine pays once for a backend, done before anything is measured, so that no case pays for it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from suites import backends, paths
from suites.harness.declare.case import BackendRef, Case
from suites.harness.record import machine, system
from suites.harness.run import checks
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import Worker, WorkerFailed, scratch_folder


def provision(
    case: Case, refs: Sequence[BackendRef], seed: Path, folder: Path, done: set[str], reporter: Reporter
) -> None:
    """Put what a machine pays once for each backend into `seed`; what an earlier run has kept is copied.

    Args:
        case: any case that the backends can run.
        refs: the backends.
        seed: the folder that the caches of all cases begin with.
        folder: scratch of the run.
        done: names of backends that need nothing more; added to.
        reporter: told what happens. A failure shows in the rows of the backend.
    """
    for ref in refs:
        declared = backends.BACKENDS.get(ref.name)
        if declared is None or not declared.provisions or ref.name in done or checks.unavailable(case, ref):
            continue
        done.add(ref.name)
        kept = _find_kept(ref.name)
        if not kept.is_dir():
            reporter.doing(f"{ref.name}: what a machine pays once")
            try:
                _make(case, ref, kept, folder)
            except (WorkerFailed, OSError) as failure:
                reporter.say(f"{ref.name}: {failure.reason if isinstance(failure, WorkerFailed) else failure}")
                continue
        shutil.copytree(kept, seed, dirs_exist_ok=True)


def _find_kept(name: str) -> Path:
    """Where runs of a user share what the machine pays once for a backend, by the versions that made it."""
    compilers = [system.describe_system()["compiler"], os.environ.get("CXX")]
    made_by = [machine.facts(), machine.versions(), sys.version, compilers]
    digest = hashlib.sha256(json.dumps(made_by, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return paths.user_cache() / "provisioned" / f"{name}-{digest}"


def _make(case: Case, ref: BackendRef, kept: Path, folder: Path) -> None:
    """Let the backend make it; the folder `kept` appears only when it is complete."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        made = Path(name) / "made"
        made.mkdir()
        with Worker(case, ref, scratch_folder(folder, f"provision_{ref.name}"), made) as worker:
            worker.ask("load", 120)
            worker.ask("provision", 300)
        for empty in (path for path in made.iterdir() if path.is_dir() and not any(path.iterdir())):
            empty.rmdir()  # folders of the worker that nothing was put into
        if not kept.is_dir():  # another run may have been faster
            made.rename(kept)
