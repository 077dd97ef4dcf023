"""Bare ``pytest`` runs the tests, bare ``pytest --benchmark-only`` the declared cases. Paths given explicitly win."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["suites.pytest_plugin"]  # also where an older installation of this checkout has no entry point for it


HERE = Path(__file__).resolve().parent


def pytest_configure(config: pytest.Config) -> None:
    """Collect the declared cases instead of the tests where only benchmarks are asked for."""
    if config.getoption("benchmark_only", default=False) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        if config.rootpath != HERE:
            # pytest looks for its root before it knows our options, and takes a path after one for a test to run.
            message = f"root {config.rootpath}, expected {HERE}: write --enginebench-suite=PATH with the ="
            raise pytest.UsageError(message)
        config.args = [str(HERE / "suites" / "pytest_benchmarks")]
