"""The declared cases over commits: latency of every backend, and what the engine makes of a model.

asv takes lower as better, so everything here is seconds, bytes or counts. A case is verified before it is timed, timed
results are checked again, and our own samples are handed over: asv's timer would repeat set-up and compilation before
every call. Each pair of case and backend runs in a process of its own (asv starts it), where it is prepared once.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from suites import fronts
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import Refused

ROUNDS = 4
SAMPLES_PER_ROUND = 5

_PAIRS: dict[tuple[str, str], tuple[Case, BackendRef]] = {
    (case.id, ref.label): (case, ref) for case, ref in fronts.pairs(fronts.suite_name())
}
_CASES = list(dict.fromkeys(case for case, _label in _PAIRS))
_BACKENDS = list(dict.fromkeys(label for _case, label in _PAIRS))


@cache
def _checked(case: str, label: str) -> fronts.Checked:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    if (case, label) not in _PAIRS:
        raise SkipNotImplemented(f"the suite does not run {label} on {case}")
    from suites.harness.run import checks

    chosen, ref = _PAIRS[case, label]
    reason = checks.unavailable(chosen, ref)
    if reason is not None:
        raise SkipNotImplemented(reason)
    try:
        return fronts.checked(chosen, ref, Path(_scratch().name))
    except Refused as error:
        if error.status == "failed":
            raise
        raise SkipNotImplemented(str(error)) from None


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for results that are checked; gone when the process ends."""
    return tempfile.TemporaryDirectory()


class Latency:
    """Seconds of one call when warm."""

    params = (_CASES, _BACKENDS)
    param_names = ("case", "backend")
    timeout = 600

    def track_latency(self, case: str, backend: str) -> dict[str, Any]:
        return {"samples": _checked(case, backend).samples(ROUNDS, SAMPLES_PER_ROUND), "number": 1}

    track_latency.unit = "seconds"  # type: ignore[attr-defined]  # asv reads it
    track_latency.version = "1"  # type: ignore[attr-defined]  # asv reads it


class Engine:
    """What compiling a case yields: these do not depend on how busy the machine is, except compile_s."""

    params = (_CASES,)
    param_names = ("case",)
    timeout = 600

    def track_nodes(self, case: str) -> int:
        return int(_checked(case, "engine").facts["nodes"])

    track_nodes.unit = "nodes"  # type: ignore[attr-defined]  # asv reads it
    track_nodes.version = "1"  # type: ignore[attr-defined]  # asv reads it

    def track_arena_bytes(self, case: str) -> int:
        return int(_checked(case, "engine").facts["arena_bytes"])

    track_arena_bytes.unit = "bytes"  # type: ignore[attr-defined]  # asv reads it
    track_arena_bytes.version = "1"  # type: ignore[attr-defined]  # asv reads it

    def track_compile(self, case: str) -> float | None:
        return _checked(case, "engine").seconds["compile_s"]

    track_compile.unit = "seconds"  # type: ignore[attr-defined]  # asv reads it
    track_compile.version = "1"  # type: ignore[attr-defined]  # asv reads it
