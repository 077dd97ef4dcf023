"""``pytest --benchmark-only suites/pytest_benchmarks``: the declared cases, each verified and then timed.

One group of the table is one case, so that its backends stand below each other.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from suites import backends, fronts
from suites.harness.case import BackendRef, Case


def test_latency(case: Case, ref: BackendRef, benchmark: Any, tmp_path: Path) -> None:
    """Seconds of one call, inputs varying from call to call."""
    reason = backends.unavailable(ref)
    if reason is not None:
        pytest.skip(reason)
    checked = fronts.checked(case, ref, tmp_path)
    benchmark.group = case.id
    benchmark.name = ref.label
    benchmark.extra_info.update(checked.facts, error=checked.error, **checked.seconds)
    checked.job.warm()
    call, inputs = checked.job.call, itertools.cycle(checked.job.inputs)
    benchmark(lambda: call(*next(inputs)))
