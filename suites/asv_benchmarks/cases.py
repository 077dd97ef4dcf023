"""The declared cases over commits: latency of every backend, and what the engine makes of a model.

asv takes lower as better, so everything here is seconds, bytes or counts. Our own samples are handed over: asv's timer
would repeat set-up and compilation before every call. asv starts a process for each pair of case and backend, which
lets a worker process verify and time the pair, as the pytest plugin does.
"""

from __future__ import annotations

from typing import Any

from suites import fronts
from suites.harness.run.single import CannotRun, Measurement, SingleRuns

_PAIRS = {(pair.case.id, pair.ref.label): pair for pair in fronts.of_suite(fronts.suite_name())}
_CASES = list(dict.fromkeys(case for case, _label in _PAIRS))
_BACKENDS = list(dict.fromkeys(label for _case, label in _PAIRS))


def _measure(case: str, label: str, *, timed: bool = False) -> Measurement:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    if (case, label) not in _PAIRS:
        raise SkipNotImplemented(f"the suite does not run {label} on {case}")
    pair = _PAIRS[case, label]
    try:
        with SingleRuns() as runs:
            return runs.measure(pair.case, pair.ref, pair.suite, timed=timed)
    except CannotRun as error:
        raise SkipNotImplemented(str(error)) from None


class Latency:
    """Seconds of one call when warm."""

    params = (_CASES, _BACKENDS)
    param_names = ("case", "backend")
    timeout = 600

    def track_latency(self, case: str, backend: str) -> dict[str, Any]:
        return {"samples": _measure(case, backend, timed=True).seconds, "number": 1}

    track_latency.unit = "seconds"  # type: ignore[attr-defined]  # asv reads it
    track_latency.version = "1"  # type: ignore[attr-defined]  # asv reads it


class Engine:
    """What compiling a case yields: these do not depend on how busy the machine is, except compile_s."""

    params = (_CASES,)
    param_names = ("case",)
    timeout = 600

    def track_nodes(self, case: str) -> int:
        return int(_measure(case, "engine").facts["nodes"])

    track_nodes.unit = "nodes"  # type: ignore[attr-defined]  # asv reads it
    track_nodes.version = "1"  # type: ignore[attr-defined]  # asv reads it

    def track_arena_bytes(self, case: str) -> int:
        return int(_measure(case, "engine").facts["arena_bytes"])

    track_arena_bytes.unit = "bytes"  # type: ignore[attr-defined]  # asv reads it
    track_arena_bytes.version = "1"  # type: ignore[attr-defined]  # asv reads it

    def track_compile(self, case: str) -> float | None:
        return _measure(case, "engine").phases["compile_s"]

    track_compile.unit = "seconds"  # type: ignore[attr-defined]  # asv reads it
    track_compile.version = "1"  # type: ignore[attr-defined]  # asv reads it
