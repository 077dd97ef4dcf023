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
MARKER = "enginebench"
ARGUMENTS = ("model", "suite", "backends", "threads", "arguments")
"""What the marker takes."""
USE = "@pytest.mark.enginebench(model='path.py:factory') or @pytest.mark.enginebench(suite='quick')"

_PAIRS = pytest.StashKey[dict[tuple[str, str, str], "Pair"]]()
"""Of a session: (test, case id, backend label) -> what it means. Parameters themselves are plain text for the JSON."""
_PROBLEMS = pytest.StashKey[list[str]]()
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
        found = self._measured()
        pair, benchmark = self._pair, self._benchmark
        benchmark.group = benchmark.group or self.id
        benchmark.name = self.backend
        benchmark.extra_info.update(
            {
                **pair.case.fields,
                "model": PurePath(pair.case.model).name,
                "backend": self.backend,
                "error": found.error,
                "phases": dict(found.phases),
                "facts": dict(found.facts),
            }
        )
        self._clock.load(found.seconds)
        benchmark.pedantic(self._clock.advance, setup=self._clock.begin, rounds=len(found.seconds) or 1)
        return found

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
    folders = [one for one in sys.path if Path(one).is_relative_to(root) and not Path(one).is_relative_to(sys.prefix)]
    with pytest.MonkeyPatch.context() as patch:
        for folder in reversed(folders):
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
    asked = config.getoption("--enginebench-suite")
    if asked is not None:
        from engine.errors import EngineError
        from suites.harness.declare import spec

        try:
            spec.find(asked)
        except EngineError as error:  # also where no test needs a suite
            raise pytest.UsageError(f"--enginebench-suite: {error}") from None
    config.stash[_PAIRS] = {}
    config.stash[_PROBLEMS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each case and backend."""
    if FIXTURE not in metafunc.fixturenames:
        return
    from engine.errors import EngineError

    node, config = metafunc.definition, metafunc.config
    found: list[Pair] = []
    try:
        found = _declared(node, config)
    except EngineError as error:
        config.stash[_PROBLEMS] += [f"{node.nodeid}: {line}" for line in str(error).splitlines()]
    for pair in found:
        config.stash[_PAIRS][_test(node), pair.case.id, pair.ref.label] = pair
    values = [(pair.case.id, pair.ref.label) for pair in found]
    names = ("enginebench_case_id", "enginebench_backend")
    metafunc.parametrize(names, values, ids=["-".join(value) for value in values])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test that measures a timer of its own; other settings of pytest-benchmark stay as they are."""
    if FIXTURE not in getattr(item, "fixturenames", ()) or not _has_benchmark(item.config):
        return
    item.stash[_CLOCK] = clock = SampleClock()
    mark = item.get_closest_marker("benchmark")
    settings = {**(mark.kwargs if mark else {}), "timer": clock}
    item.add_marker(pytest.mark.benchmark(**settings), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Stop with one line for each mistake, before anything runs."""
    if config.stash[_PROBLEMS]:
        raise pytest.UsageError(*config.stash[_PROBLEMS])


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


def _has_benchmark(config: pytest.Config) -> bool:
    """Whether pytest-benchmark is there and not turned off."""
    return config.getoption("benchmark_only", None) is not None


def _declared(node: pytest.Item, config: pytest.Config) -> list[Pair]:
    """What a test is to measure; EngineError says what is wrong with its marker or with the command line."""
    from suites import fronts
    from suites.harness.declare.case import split_labels
    from suites.harness.errors import UsageError

    if not _has_benchmark(config):
        raise UsageError(f"the fixture {FIXTURE} needs pytest-benchmark: pip install pytest-benchmark")
    mark = node.get_closest_marker(MARKER)
    chosen = _chosen(mark) if mark else {}
    folder, suite = node.path.parent, config.getoption("--enginebench-suite")
    named, given = chosen.pop("backends", None), config.getoption("--enginebench-backends")
    backends = None if named is None else fronts.resolve_labels([named] if isinstance(named, str) else named, folder)
    if given is not None:
        backends = fronts.resolve_labels(split_labels(given), Path.cwd())
    if "model" in chosen:
        return fronts.of_model(chosen.pop("model"), backends, folder, **chosen)
    if suite is None and "suite" in chosen:
        return fronts.of_suite(chosen["suite"], backends, folder)
    named = suite or os.environ.get(fronts.SUITE_VARIABLE)
    if named:
        return fronts.of_suite(named, backends)
    if config.getini("enginebench_suite"):
        return fronts.of_suite(config.getini("enginebench_suite"), backends, (config.inipath or folder).parent)
    raise UsageError(f"nothing to measure: use {USE}, or give --enginebench-suite")


def _chosen(mark: pytest.Mark) -> dict[str, Any]:
    """The arguments of the marker, None left out; UsageError where they are not its own or contradict."""
    from engine.suggest import unknown
    from suites.harness.errors import UsageError

    if mark.args:
        raise UsageError(f"the marker {MARKER} takes arguments by name only: {USE}")
    for name in mark.kwargs:
        if name not in ARGUMENTS:
            raise UsageError(f"the marker {MARKER}: {unknown('argument', name, ARGUMENTS)}")
    found = {name: value for name, value in mark.kwargs.items() if value is not None}
    if "model" in found and "suite" in found:
        raise UsageError(f"the marker {MARKER} takes a model or a suite, not both")
    kinds = {"model": str, "suite": str, "backends": str | list | tuple, "arguments": dict}
    for name, kind in kinds.items():
        if name in found and not isinstance(found[name], kind):
            raise UsageError(f"the marker {MARKER}: {name} must not be {found[name]!r}")
    if "model" not in found and {"threads", "arguments"} & set(found):
        raise UsageError(f"the marker {MARKER}: threads and arguments go with a model; a suite declares its own")
    return found
