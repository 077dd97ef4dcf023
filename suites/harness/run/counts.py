"""Counts of the programs that backends make of cases. Nothing is called and nothing is timed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Timeouts
from suites.harness.record.facts import Facts, facts_of
from suites.harness.record.reasons import tidy
from suites.harness.record.schema import Status
from suites.harness.run import checks
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import Worker, WorkerFailed, run_folder, scratch_folder


@dataclass(frozen=True)
class Counted:
    """A program, or why there is none.

    Attributes:
        facts: what the backend tells of it; None if the status is not ``ok``.
        status: ``ok``, ``failed``, ``timeout``, ``unavailable`` or ``not applicable``.
        reason: why the status is not ``ok``.
    """

    facts: Facts | None
    status: Status = "ok"
    reason: str | None = None


Counts = dict[tuple[str, str], Counted]
"""(case, label of the backend) -> its program."""


def count_programs(
    cases: Sequence[tuple[Case, Sequence[BackendRef]]], timeouts: Timeouts, reporter: Reporter
) -> Counts:
    """Let every backend make a program of its cases."""
    counts: Counts = {}
    with run_folder() as folder:
        for number, (case, refs) in enumerate(cases, 1):
            # Backends of one name share a process, which builds the model once; another version has its own process.
            for name, members in itertools.groupby(refs, key=lambda ref: ref.name):
                scratch = scratch_folder(folder, f"{number}_{name}")
                cache = scratch_folder(folder, f"exports_{case.computation}_{name}")  # precisions share an export
                for ref, counted in count_case(case, list(members), scratch, cache, timeouts, reporter):
                    counts[case.id, ref.label] = counted
    return counts


def count_case(
    case: Case, refs: Sequence[BackendRef], scratch: Path, cache: Path, timeouts: Timeouts, reporter: Reporter
) -> Iterator[tuple[BackendRef, Counted]]:
    """The programs of backends of one name. Where the process fails, the next backend gets a new one."""
    worker: Worker | None = None
    try:
        for number, ref in enumerate(refs, 1):
            reporter.doing(f"{case.id}  {ref.label} ({number} of {len(refs)} programs)")
            reason = checks.unavailable(case, ref)
            if reason is not None:
                yield ref, Counted(None, "unavailable", reason)
                continue
            try:
                if worker is None:
                    worker = Worker(case, ref, scratch, cache)
                    worker.ask("load", timeouts.load)
                answer = worker.ask("facts", timeouts.prepare, options=dict(ref.options))
                facts = facts_of(answer["facts"]).model_dump(include=set(Facts.model_fields))
            except WorkerFailed as failure:
                worker = None  # it is gone
                yield ref, Counted(None, failure.status, failure.reason)
            except ValueError as error:  # a value is not of its column's type
                yield ref, Counted(None, "failed", tidy(f"facts: {error}"))
            else:
                reason = answer["not_applicable"]
                yield ref, Counted(Facts(**facts)) if reason is None else Counted(None, "not applicable", reason)
    finally:
        if worker is not None:
            worker.close()
