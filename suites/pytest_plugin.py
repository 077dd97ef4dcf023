"""The pytest plugin. Its fixture `enginebench_case` measures one backend in a worker, and stores with pytest-benchmark.

pytest loads this module wherever enginebench is installed, so it imports nothing but pytest until a test asks for the
fixture. Each case runs in a worker process: verified, then timed there. pytest-benchmark is given the samples of the
worker through its own public interface: `benchmark.pedantic` with a timer that tells the seconds of the next sample.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from suites.fronts import Pair
    from suites.harness.run.single import Measurement, SingleRuns

FIXTURE = "enginebench_case"

_PAIRS = pytest.StashKey[dict[tuple[str, str, str], "Pair"]]()
"""Of a session: (test, case id, backend label) -> what it means. Parameters themselves are plain text for the JSON."""
_CLOCK = pytest.StashKey["SampleClock"]()


class SampleClock:
    """A timer that stands still until `advance` moves it by the next sample.

    Each round begins at zero, so that the difference that pytest-benchmark takes is the sample, bit for bit.
    """

    __name__ = "enginebench_worker"  # what pytest-benchmark calls the timer in its records

    def __init__(self) -> None:
        self._now = 0.0
        self._samples: Iterator[float] = iter(())

    def __call__(self) -> float:
        """Seconds since the round began."""
        return self._now

    def load(self, samples: Sequence[float]) -> None:
        """Take the samples that the rounds to come shall last."""
        self._samples = iter(samples)

    def begin(self) -> None:
        """Go back to zero: what comes before a round."""
        self._now = 0.0

    def advance(self) -> None:
        """Let one sample pass; nothing where all have passed."""
        self._now += next(self._samples, 0.0)


class EnginebenchCase:
    """One backend on one case, for a test.

    Attributes:
        id: the name of the case in tables and records.
        backend: the label of the backend.
    """

    def __init__(self, pair: Pair, runs: SingleRuns, benchmark: Any, clock: SampleClock, root: Path) -> None:
        self.id = pair.case.id
        self.backend = pair.ref.label
        self._pair = pair
        self._runs = runs
        self._benchmark = benchmark
        self._clock = clock
        self._root = root

    def measure(self) -> Measurement:
        """Verify, warm up and time in a fresh process, and store the samples; may be called once a test.

        Fails the test where results are wrong, skips it where the backend cannot run here. With
        ``--benchmark-disable`` and under xdist it only verifies.

        Returns:
            error, facts, phases, seconds.
        """
        measured = self._measured()
        pair, benchmark = self._pair, self._benchmark
        benchmark.group = benchmark.group or self.id
        benchmark.name = self.backend
        names = {"model": PurePath(pair.case.model).name, "backend": self.backend}
        result = {"error": measured.error, "phases": dict(measured.phases), "facts": dict(measured.facts)}
        benchmark.extra_info.update({**pair.case.fields, **names, **result})
        self._clock.load(measured.seconds)
        benchmark.pedantic(self._clock.advance, setup=self._clock.begin, rounds=len(measured.seconds) or 1)
        return measured

    def _measured(self) -> Measurement:
        from suites.harness.run.single import CannotRun, Failed

        pair, name = self._pair, f"{self.id}: {self.backend}"
        try:
            with _importable(self._root):
                return self._runs.measure(pair.case, pair.ref, pair.suite, timed=self._benchmark.enabled)
        except CannotRun as error:
            pytest.skip(f"{name}: {error}")
        except Failed as error:
            with contextlib.suppress(Failed):  # so that pytest-benchmark knows of the failure and stores nothing
                self._benchmark.pedantic(_raise, args=(error,))
            pytest.fail(f"{name}: {error}", pytrace=False)


@contextlib.contextmanager
def _importable(root: Path) -> Iterator[None]:
    """Let processes that start meanwhile import from folders of the project that pytest has put on sys.path."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in reversed(sys.path):
            if Path(folder).is_relative_to(root) and not Path(folder).is_relative_to(sys.prefix):
                patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        yield


def _raise(error: Exception) -> None:
    raise error


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--enginebench-suite``, ``--enginebench-backends`` and the setting ``enginebench_suite``."""
    parser.addini("enginebench_suite", "suite of tests that name none, by name or path relative to this file")
    group = parser.getgroup("enginebench")
    group.addoption(
        "--enginebench-suite",
        metavar="SUITE",
        help="suite by name or path, for tests that name a suite or nothing (default: what they name, else "
        "$ENGINEBENCH_SUITE, else the setting enginebench_suite)",
    )
    group.addoption(
        "--enginebench-backends",
        metavar="LABELS",
        help="run these backends, separated by commas, instead of those that tests and suites name",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "enginebench(model=None, suite=None, backends=None, threads=1, arguments=None): what the fixture "
        "enginebench_case measures: a model by name or path.py:factory (with its sizes and options in `arguments`), or "
        "a suite by name or path. Relative paths are relative to the file of the test.",
    )
    config.stash[_PAIRS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each case and backend."""
    if FIXTURE not in metafunc.fixturenames:
        return
    from engine.errors import EngineError

    node, config = metafunc.definition, metafunc.config
    try:
        with _importable(config.rootpath):  # a process imports the file of a user's model
            pairs = _list_pairs(node, config)
    except EngineError as error:  # pytest prints a CollectError without a traceback
        raise pytest.Collector.CollectError(f"{node.nodeid}: {error}") from None
    for pair in pairs:
        config.stash[_PAIRS][_test(node), pair.case.id, pair.ref.label] = pair
    values = [(pair.case.id, pair.ref.label) for pair in pairs]
    names = ("enginebench_case_id", "enginebench_backend")
    metafunc.parametrize(names, values, ids=["-".join(value) for value in values])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test that measures a timer of its own; other settings of pytest-benchmark stay as they are."""
    if FIXTURE not in getattr(item, "fixturenames", ()):
        return
    item.stash[_CLOCK] = clock = SampleClock()
    mark = item.get_closest_marker("benchmark")
    settings = {**(mark.kwargs if mark else {}), "timer": clock}
    item.add_marker(pytest.mark.benchmark(**settings), append=False)


@pytest.fixture(scope="session")
def _enginebench_runs() -> Iterator[SingleRuns]:
    """What tests of a session share: references and scratch."""
    from suites.harness.run.single import SingleRuns

    with SingleRuns() as runs:
        yield runs


@pytest.fixture
def enginebench_case(
    request: pytest.FixtureRequest,
    benchmark: Any,
    enginebench_case_id: str,
    enginebench_backend: str,
    _enginebench_runs: SingleRuns,
) -> EnginebenchCase:
    """One backend on one case of the marker `enginebench`; call its `measure()`."""
    pair = request.config.stash[_PAIRS][_test(request.node), enginebench_case_id, enginebench_backend]
    return EnginebenchCase(pair, _enginebench_runs, benchmark, request.node.stash[_CLOCK], request.config.rootpath)


def _test(node: Any) -> str:
    """The name of a test without its parameters."""
    return f"{node.parent.nodeid}::{node.originalname}"


def _list_pairs(node: pytest.Item, config: pytest.Config) -> list[Pair]:
    """What a test is to measure. EngineError if its marker or the command line names what does not exist."""
    from suites import fronts
    from suites.harness.declare.case import split_labels
    from suites.harness.errors import UsageError

    mark = node.get_closest_marker("enginebench")
    options = dict(mark.kwargs) if mark else {}
    here, given = node.path.parent, config.getoption("--enginebench-backends")
    named = options.pop("backends", None) or ()
    labels, place = (given, Path.cwd()) if given else (named, here)
    labels = fronts.resolve_labels(split_labels(labels) if isinstance(labels, str) else labels, place)
    if "model" in options:
        return fronts.of_model(**options, backends=labels, folder=here)
    suites = (
        (config.getoption("--enginebench-suite"), Path.cwd()),
        (options.pop("suite", None), here),
        (os.environ.get(fronts.SUITE_VARIABLE), Path.cwd()),
        (config.getini("enginebench_suite"), (config.inipath or node.path).parent),
    )
    for suite, folder in suites:
        if suite:
            return fronts.of_suite(**options, suite=suite, backends=labels, folder=folder)
    raise UsageError(
        "nothing to measure: use @pytest.mark.enginebench(model='path.py:factory'), or --enginebench-suite"
    )
