"""What every test can ask for, and the environment that all of them run in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from suites import user_file
from suites.harness.run import session
from tests import forked, messages, times

# Two test processes share two cores: more threads a process would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Triton reads this when it is first imported, by whichever test: without a GPU, kernels run in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Tables are as wide as this says; what tests read of them shall not depend on who started them.
os.environ.pop("COLUMNS", None)

ROOT = Path(__file__).resolve().parent.parent

# The same examples at each run, however long one takes.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what `make messages` gives."""
    parser.addoption("--renew-messages", action="store_true", help="write the texts of errors that tests see to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Note where the time goes (`make test-times`), and the texts of errors (`make messages`)."""
    config.pluginmanager.register(times.Clock(config), "times")
    config.pluginmanager.register(messages.Plugin(config), "messages")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kernel tests first: their file is the longest, and begun last it would leave the other process idle."""
    items.sort(key=lambda item: ROOT / "tests" / "kernels" not in item.path.parents)


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Fork the workers of the harness."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "start_process", forked.start)
        yield


@pytest.fixture(autouse=True)
def _real_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start them as users do, where the test is about that."""
    if request.node.get_closest_marker("real_workers"):
        monkeypatch.setattr(session, "start_process", forked.start_own)


@pytest.fixture
def import_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import users' files in this process: a child that imports torch for each of many files would take minutes."""
    monkeypatch.setattr(user_file, "_ask", lambda path, _stamp: user_file._answer(path))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT
