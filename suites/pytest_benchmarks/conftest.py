"""Options of the pytest front: which suite, which backends."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import EngineError
from suites import fronts


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--suite`` and ``--backends``."""
    group = parser.getgroup("enginebench")
    group.addoption(
        "--suite", help=f"suite by name or path (default: ${fronts.SUITE_VARIABLE} or {fronts.DEFAULT_SUITE})"
    )
    group.addoption("--backends", help="only these, separated by commas (default: all of the suite)")


def pytest_configure(config: pytest.Config) -> None:
    """A warning of a competitor's exporter is no failure of a benchmark."""
    config.addinivalue_line("filterwarnings", "default")


def pytest_generate_tests(metafunc: Any) -> None:
    """One benchmark a case and backend."""
    if not {"case", "ref"} <= set(metafunc.fixturenames):
        return
    only = metafunc.config.getoption("--backends")
    try:
        pairs = fronts.pairs(fronts.suite_name(metafunc.config.getoption("--suite")))
    except EngineError as error:
        raise pytest.UsageError(str(error)) from None
    if only:
        wanted = {label.strip() for label in only.split(",")}
        unknown = wanted - {ref.label for _case, ref in pairs}
        if unknown:
            raise pytest.UsageError(f"--backends: the suite has no {', '.join(sorted(unknown))}")
        pairs = [(case, ref) for case, ref in pairs if ref.label in wanted]
    metafunc.parametrize(("case", "ref"), pairs, ids=[f"{case.id}-{ref.label}" for case, ref in pairs])
