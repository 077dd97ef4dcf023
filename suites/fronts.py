"""What the pytest and asv fronts share: which pairs of case and backend a suite or a model declares.

The pytest front measures each pair in a process of its own (`suites.harness.run.single`). asv starts a process for each
benchmark itself, so its front measures inside of that one: `checked` verifies there with the same code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites import backends as registry
from suites import models
from suites.backends import versions
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite
from suites.harness.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from suites.harness.judge.verify import Reference
    from suites.harness.measure.job import Job

SUITE_VARIABLE = "ENGINEBENCH_SUITE"
DEFAULT_SUITE = "quick"
SET_THREADS = "threads={0} in the marker of a test of a model, or threads = {0} in the file of a suite"
"""How a user of pytest sets the threads of a case."""
MODEL_BACKENDS = ("eager", "engine")
"""Who runs a model where nobody is named."""


class WrongResult(AssertionError):
    """A backend's outputs differ from the reference: there is nothing to time."""


@dataclass(frozen=True)
class Pair:
    """One thing to measure: a backend on a case, with the rounds and time limits of a suite."""

    case: Case
    ref: BackendRef
    suite: Suite


@dataclass(frozen=True)
class Checked:
    """A job that may be timed.

    Attributes:
        job: loaded, prepared and verified.
        facts: what the backend says of what it made, for example nodes and arena_bytes.
        error: the worst relative error over all outputs and input sets.
        seconds: of the phases: import_s, export_s, compile_s, first_call_s.
        references: the right outputs of each input set.
        scratch: the folder to which the job writes results for checking.
    """

    job: Job
    facts: Mapping[str, Any]
    error: float
    seconds: Mapping[str, float | None] = field(default_factory=dict)
    references: Sequence[Reference] = ()
    scratch: Path = Path()

    def samples(self, rounds: int, samples_per_round: int) -> list[float]:
        """Warm up, then time; seconds of a call, one value a sample.

        Raises:
            WrongResult: a result before the warm-up, or that of a timed call, is wrong.
        """
        self._refuse(self.job.soak()["suspects"], "a call before the warm-up")
        self.job.warm()
        turns = [self.job.sample(samples_per_round, keep=True) for _ in range(rounds)]
        self._refuse([turn["output"] for turn in turns], "a timed call")
        return [seconds for turn in turns for seconds in turn["seconds"]]

    def _refuse(self, results: Sequence[Mapping[str, Any]], what: str) -> None:
        from suites.harness.run import checks

        fault = checks.first_fault(self.scratch, results, self.references)
        if fault is not None:
            raise WrongResult(f"{what}: {fault}")


def suite_name() -> str:
    """The suite to run: that of the environment, else the quick one."""
    return os.environ.get(SUITE_VARIABLE) or DEFAULT_SUITE


def of_suite(name: str, backends: Sequence[str] | None = None, folder: Path | None = None) -> list[Pair]:
    """Every case of a suite with each of its backends, or with `backends` instead.

    Args:
        name: a suite by name or path; a relative path is relative to `folder`, the current one by default.
        backends: labels, as `resolve_labels` returns them.
        folder: see `name`.

    Raises:
        UsageError: no such suite or backend, or the suite is malformed.
    """
    path = (folder or Path.cwd()) / name
    suite = spec.load(path if path.suffix == ".toml" and path.is_file() else spec.find(name))
    return _pairs(suite if backends is None else _with_backends(suite, backends))


def of_model(
    model: str,
    backends: Sequence[str] | None = None,
    folder: Path | None = None,
    *,
    threads: Any = 1,
    arguments: Mapping[str, Any] | None = None,
) -> list[Pair]:
    """A model with each of `backends`, by default eager and the engine, once for each number of threads.

    Args:
        model: a name, or ``path.py:factory`` with a path relative to `folder`, the current one by default.
        backends: labels, as `resolve_labels` returns them.
        folder: see `model`.
        threads: a number or several.
        arguments: sizes and options of the model.

    Raises:
        EngineError: an unknown model, backend or argument, or a value that does not fit.
    """
    placed = _absolute(model, folder or Path.cwd())
    suite = spec.of_model(placed, arguments or {}, name="model", backends=["eager"], threads=threads)
    return _pairs(_with_backends(suite, MODEL_BACKENDS if backends is None else backends))


def resolve_labels(labels: Sequence[str], folder: Path) -> list[str]:
    """Labels of backends whose relative paths are relative to `folder`, for use anywhere.

    Raises:
        UsageError: an unknown backend or option, or a missing file; or there are no labels.
    """
    if not labels:
        raise UsageError("no backend is named")
    found = [versions.resolve(_absolute(label, folder), folder) for label in labels]
    for label in found:
        registry.check(BackendRef.parse(label), SET_THREADS)
    return found


def pairs(suite: str) -> list[tuple[Case, BackendRef]]:
    """Cases and backends of a suite, for a front that measures in its own process.

    Raises:
        UsageError: as `of_suite`, or the suite names another version of the engine.
    """
    found = [(pair.case, pair.ref) for pair in of_suite(suite)]
    for _case, ref in found:
        if versions.is_version(ref.name):
            raise UsageError(f"{suite}: {ref.name} needs a process of its own: use `enginebench run`")
    return found


def checked(case: Case, ref: BackendRef, scratch: Path) -> Checked:
    """Load, prepare and verify `ref` on `case` in this process.

    Raises:
        WrongResult: the outputs are wrong, or the inputs were written to.
        Unavailable: the backend cannot start each call from the first values of the buffers.
    """
    from suites.harness.judge import reference
    from suites.harness.measure.job import Job
    from suites.harness.run import checks
    from suites.models import INPUT_SETS

    job = Job(case, ref, scratch)
    seconds: dict[str, float | None] = dict(job.load())
    job.provision()
    references = reference.compute(checks.reference_case(case, ref), INPUT_SETS)
    reason = registry.cannot_restore(ref, references[0].state)
    if reason is not None:
        raise Unavailable(f"{case.id}: {reason}")
    prepared = job.prepare(references[0].state)
    facts = prepared.pop("facts")
    answer = job.verify()
    found = checks.judge(scratch, answer, references)
    if found.reason is not None:
        raise WrongResult(f"{case.id}: {ref.label}: {found.reason}")
    return Checked(job, facts, found.relative, seconds | prepared, references, scratch)


def _with_backends(suite: Suite, labels: Sequence[str]) -> Suite:
    """`suite` with exactly these backends for all of its models; the first one takes the place of the baseline."""
    sweeps = [sweep.model_copy(update={"backends": None}) for sweep in suite.models]
    return suite.model_copy(update={"backends": list(labels), "baseline": labels[0], "models": sweeps})


def _pairs(suite: Suite) -> list[Pair]:
    return [Pair(case, ref, suite) for case, refs in suite.cases() for ref in refs]


def _absolute(name: str, folder: Path) -> str:
    """The name of a user's file with a relative path placed under `folder`; any other name as it is."""
    return str(folder / name) if (".py:" in name or models.is_path(name)) and not name.startswith("~") else name
