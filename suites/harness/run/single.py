"""One backend on one case in a process of its own: verified, warmed up, timed, with no other backend at its side.

For fronts whose own tool compares and stores times. Isolation, checks and the choice of rounds are those of a run
(`casework.py`). There is no interleaving and only one generation, so two measurements may differ by more than the
rounds of each do.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from suites import backends
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite
from suites.harness.judge.summary import PHASES
from suites.harness.judge.verify import Reference
from suites.harness.measure.contention import Watch, kept
from suites.harness.record.reasons import tidy
from suites.harness.record.schema import HARMLESS
from suites.harness.run import checks
from suites.harness.run.casework import CHECK_EVERY, MIN_ROUNDS
from suites.harness.run.provision import provision
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import Worker, WorkerFailed, run_folder, scratch_folder


class CannotRun(Exception):
    """The backend cannot run the case on this machine, or the case makes no sense for it; the text says why."""


class Failed(Exception):
    """There is nothing to time: a result is wrong, or the worker failed or took too long.

    Attributes:
        status: ``wrong``, ``failed`` or ``timeout``.
        reason: what happened, in one or a few lines.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Measurement:
    """A backend whose results are right.

    Attributes:
        error: the worst relative error over all outputs and input sets.
        facts: what the backend says of the program that it made, for example nodes and arena_bytes.
        phases: seconds of import_s, export_s, compile_s, first_call_s; None where there is no such phase.
        seconds: one value a sample, each the seconds of a call; empty where nothing was to be timed.
    """

    error: float
    facts: Mapping[str, Any]
    phases: Mapping[str, float | None]
    seconds: Sequence[float]


class SingleRuns:
    """Measures pairs of case and backend one after the other; cases that compute the same share one reference.

    A context manager: its scratch folder is gone at the end.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = Path()
        self._references: dict[float, References] = {}
        self._provisioned: set[str] = set()
        self._count = 0

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(run_folder())
        self._seed.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def _seed(self) -> Path:
        return self._folder / "provisioned"

    def measure(self, case: Case, ref: BackendRef, suite: Suite, *, timed: bool = True) -> Measurement:
        """Verify `ref` on `case` and time it.

        Args:
            case: what to run.
            ref: who runs it.
            suite: rounds, samples a round, budget and time limits.
            timed: False: verify only.

        Raises:
            CannotRun: it cannot run here.
            Failed: it has no right result, or a timed result was wrong.
        """
        reason = checks.unavailable(case, ref)
        if reason is not None:
            raise CannotRun(reason)
        provision(case, [ref], self._seed, self._folder, self._provisioned, Reporter())
        self._count += 1
        scratch = scratch_folder(self._folder, f"single_{self._count}")
        cache = scratch / "cache"
        shutil.copytree(self._seed, cache)
        try:
            references = self._references_of(suite).get(checks.reference_case(case, ref))
            reason = backends.cannot_restore(ref, references[0].state)
            if reason is not None:
                raise CannotRun(reason)
            with Worker(case, ref, scratch, cache) as worker:
                return _measure(worker, suite, references, timed=timed)
        except WorkerFailed as failure:
            if failure.status in HARMLESS:
                raise CannotRun(failure.reason) from None
            raise Failed(failure.status, failure.reason) from None
        finally:
            shutil.rmtree(scratch)

    def _references_of(self, suite: Suite) -> References:
        limit = suite.timeouts.reference
        if limit not in self._references:
            self._references[limit] = References(scratch_folder(self._folder, f"references_{limit}"), limit)
        return self._references[limit]


def _measure(worker: Worker, suite: Suite, references: Sequence[Reference], *, timed: bool) -> Measurement:
    limits = suite.timeouts
    answer = worker.ask("load", limits.load) | worker.ask("prepare", limits.prepare, state=references[0].state)
    judgement = checks.judge(worker.scratch, worker.ask("verify", limits.verify), references)
    if judgement.reason is not None:
        raise Failed("wrong", tidy(judgement.reason))
    seconds: list[float] = []
    if timed:
        suspects = worker.ask("soak", limits.warm)["suspects"]
        _refuse(checks.first_fault(worker.scratch, suspects, references), "a call before the warm-up")
        worker.ask("warm", limits.warm)
        turns, rounds = _rounds(worker, suite)
        outputs = [turn["output"] for turn in turns if turn["output"]]
        _refuse(checks.first_fault(worker.scratch, outputs, references), "a timed call")
        seconds = list(chain.from_iterable(turns[number]["seconds"] for number in rounds))
    return Measurement(judgement.relative, answer["facts"], {name: answer[name] for name in PHASES}, seconds)


def _rounds(worker: Worker, suite: Suite) -> tuple[list[dict[str, Any]], list[int]]:
    """Turns of the worker, and which of them to keep: rounds that other processes disturbed are repeated."""
    watch, began = Watch(lambda: [worker.pid]), time.monotonic()
    turns, disturbed = list[dict[str, Any]](), list[bool]()
    while disturbed.count(False) < suite.rounds and len(disturbed) < suite.rounds + suite.rounds // 3:
        number = len(disturbed)
        if number >= MIN_ROUNDS and time.monotonic() - began > suite.generation_budget_s:
            break
        keep = number % CHECK_EVERY < 2
        turns.append(worker.ask("sample", suite.timeouts.sample, count=suite.samples_per_round, keep=keep))
        disturbed.append(watch.read().disturbed)
    return turns, kept(disturbed, suite.rounds)


def _refuse(fault: str | None, what: str) -> None:
    if fault is not None:
        raise Failed("wrong", f"{what}: {fault}")
