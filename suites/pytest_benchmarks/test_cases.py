"""The declared cases under pytest-benchmark: bare ``pytest --benchmark-only`` at the root of the checkout runs them.

One group of the table is one case, so that its backends stand below each other. The suite is that of
``--enginebench-suite`` or ``$ENGINEBENCH_SUITE``, else that of pyproject.toml. The marker is left out: its name would
make ``-k engine`` select every backend.
"""

from __future__ import annotations

import pytest

from suites.pytest_plugin import EnginebenchCase


@pytest.mark.timeout(0)  # workers have time limits of their own, those of the suite
def test_latency(enginebench_case: EnginebenchCase) -> None:
    """Seconds of one call, inputs varying from call to call."""
    enginebench_case.measure()
