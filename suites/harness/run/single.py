"""One backend on one case, for fronts whose own tool compares and stores times.

The steps are those of a run (`casework.py`) with one backend and one generation. So nothing is interleaved, and two
measurements may differ by more than the rounds of each do.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite
from suites.harness.judge.summary import PHASES
from suites.harness.record.schema import HARMLESS
from suites.harness.run.casework import CaseWork
from suites.harness.run.provision import provision
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import run_folder, scratch_folder


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
        facts: what the backend says of the program that it made, for example nodes and arena_bytes; see `facts_of`.
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
        (self._folder / "provisioned").mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def measure(self, case: Case, ref: BackendRef, suite: Suite, *, timed: bool = True) -> Measurement:
        """Verify `ref` on `case` and time it.

        `suite` has the rounds, samples a round, budget and time limits. With `timed` False it is only verified.

        Raises:
            CannotRun: it cannot run here.
            Failed: it has no right result, or a timed result was wrong.
        """
        provisioned, limit = self._folder / "provisioned", suite.timeouts.reference
        provision(case, [ref], provisioned, self._folder, self._provisioned, Reporter())
        self._count += 1
        scratch = scratch_folder(self._folder, f"single_{self._count}")
        shutil.copytree(provisioned, scratch / "cache")
        if limit not in self._references:
            self._references[limit] = References(scratch_folder(self._folder, f"references_{limit}"), limit)
        asked = suite.model_copy(update={"generations": 1, "rounds": suite.rounds if timed else 0})
        work = CaseWork(case, [ref], asked, scratch, scratch / "cache", self._references[limit], Reporter())
        try:
            ((line,),) = work.generations()
        finally:
            shutil.rmtree(scratch)
        if line.status != "ok":
            reason = str(line.reason)
            raise CannotRun(reason) if line.status in HARMLESS else Failed(line.status, reason)
        phases = {name: getattr(line, name) for name in PHASES}
        facts = line.facts.model_dump(exclude_none=True)
        error = 0.0 if line.error is None else line.error.relative
        return Measurement(error, facts, phases, list(chain.from_iterable(line.seconds)))
