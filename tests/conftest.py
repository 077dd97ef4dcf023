"""What every test can ask for, and the environment that all of them run in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Two test processes share two cores: more threads a process would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a module that share what is made once run in one process, so that it is (with --dist loadgroup)."""
    for item in items:
        fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009  # pytest has no public way
        if any(one.scope == "module" for found in fixtures for one in found):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT
