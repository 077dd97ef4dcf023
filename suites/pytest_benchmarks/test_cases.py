"""``pytest --benchmark-only suites/pytest_benchmarks``: the declared cases, each verified and then timed.

One group of the table is one case, so that its backends stand below each other.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from suites import backends, fronts, models
from suites.harness.declare.case import BackendRef, Case

ROUNDS = 20
"""Calls of a case that must be made ready before each: then the tool does not choose their number itself."""


def test_latency(case: Case, ref: BackendRef, benchmark: Any, tmp_path: Path) -> None:
    """Seconds of one call, inputs varying from call to call."""
    reason = backends.unavailable(ref) or backends.cannot_run(ref, models.get(case.model).form)
    if reason is not None:
        pytest.skip(reason)
    try:
        checked = fronts.checked(case, ref, tmp_path)
    except fronts.Refused as refusal:
        pytest.skip(str(refusal))
    benchmark.group = case.id
    benchmark.name = ref.label
    benchmark.extra_info.update(checked.facts, error=checked.error, **checked.seconds)
    checked.job.warm()
    job, inputs = checked.job, itertools.cycle(checked.job.inputs)
    if not job.must_be_ready:
        benchmark(lambda: job.call(*next(inputs)))
        return

    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        one = next(inputs)
        job.ready(*one)
        return one, {}

    benchmark.pedantic(job.call, setup=setup, rounds=ROUNDS)
