"""What every test can ask for, and the environment that all of them run in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import times

# Two test processes share two cores: more threads a process would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Triton reads this when it is first imported, by whichever test: without a GPU, kernels run in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Tables are as wide as this says; what tests read of them shall not depend on who started them.
os.environ.pop("COLUMNS", None)

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Note where the time goes (`make test-times`)."""
    config.pluginmanager.register(times.Clock(config), "times")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kernel tests first: their file is the longest, and begun last it would leave the other process idle."""
    items.sort(key=lambda item: ROOT / "tests" / "kernels" not in item.path.parents)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT
