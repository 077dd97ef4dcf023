"""What the pytest and asv fronts share: the cases of a suite, and a job whose results were checked before any timing.

Both fronts measure inside of their own process, one backend after the other. That is what their tools are made for; two
runtimes in one process can disturb each other, so a comparison between backends is the business of ``enginebench run``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites import backends
from suites.backends import versions
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError

if TYPE_CHECKING:
    from suites.harness.measure.job import Job

SUITE_VARIABLE = "ENGINEBENCH_SUITE"
DEFAULT_SUITE = "quick"


class WrongResult(AssertionError):
    """A backend's outputs differ from the reference: there is nothing to time."""


class Refused(UsageError):
    """A backend cannot run the model as the others do: there is nothing to compare."""


@dataclass(frozen=True)
class Checked:
    """A job that may be timed.

    Attributes:
        job: loaded, prepared and verified.
        facts: what the backend says of what it made, for example nodes and arena_bytes.
        error: the worst relative error over all outputs and input sets.
        seconds: of the phases: import_s, export_s, compile_s, first_call_s.
    """

    job: Job
    facts: Mapping[str, Any]
    error: float
    seconds: Mapping[str, float | None] = field(default_factory=dict)


def suite_name(given: str | None = None) -> str:
    """The suite to run: the given one, else that of the environment, else the quick one."""
    return given or os.environ.get(SUITE_VARIABLE) or DEFAULT_SUITE


def pairs(suite: str) -> list[tuple[Case, BackendRef]]:
    """Every case of the suite with each of its backends; the suite is a name or a path.

    Raises:
        UsageError: no such suite, it is malformed, or it names another version of the engine.
    """
    declared = spec.load(spec.find(suite))
    found = [(case, ref) for case, refs in declared.cases() for ref in refs]
    for _case, ref in found:
        if versions.is_version(ref.name):
            raise UsageError(f"{suite}: {ref.name} needs a process of its own: use `enginebench run`")
    return found


def checked(case: Case, ref: BackendRef, scratch: Path) -> Checked:
    """Load, prepare and verify `ref` on `case` in this process.

    Raises:
        WrongResult: the outputs are wrong, or the inputs were written to.
        Refused: the backend cannot start each call from the same state.
    """
    from suites.harness.judge import reference, verify
    from suites.harness.measure.job import INPUT_SETS, Job
    from suites.harness.record import outputs

    job = Job(case, ref, scratch)
    seconds: dict[str, float | None] = dict(job.load())
    job.provision()
    references = reference.compute(case, INPUT_SETS)
    reason = backends.cannot_restore(ref, references[0].state)
    if reason is not None:
        raise Refused(f"{case.id}: {reason}")
    prepared = job.prepare(references[0].state)
    facts = prepared.pop("facts")
    found = job.verify()
    if found["inputs_changed"]:
        raise WrongResult(f"{case.id}: {ref.label} wrote to its inputs (input sets {found['inputs_changed']})")
    error = 0.0
    for file, expected in zip(found["files"], references, strict=True):
        verdict = verify.check(*outputs.read(scratch / file), expected)
        if verdict.reason is not None:
            raise WrongResult(f"{case.id}: {ref.label}: {verdict.reason}")
        error = max(error, verdict.relative)
    return Checked(job, facts, error, seconds | prepared)
