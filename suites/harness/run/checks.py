"""What every front asks of a backend before it believes a time: can it run here, and are its results right?

Reads results that a `Job` has written to its scratch folder. Starts no process and owns no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.processors import count_processors
from suites import backends, models
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge import verify
from suites.harness.judge.verify import Reference
from suites.harness.measure import device
from suites.harness.record import outputs
from suites.harness.record.schema import Accuracy, Error


@dataclass(frozen=True)
class Judgement:
    """What the results of one `Job.verify` are worth.

    Attributes:
        error: the worst over all outputs and input sets.
        reason: what is wrong; None where all is right.
        accuracy: of quantised cases, differences from the model that is not quantised.
    """

    error: Error
    reason: str | None
    accuracy: Accuracy | None = None


def unavailable(case: Case, ref: BackendRef) -> str | None:
    """Why `ref` cannot run `case` on this machine; None where it can."""
    model, cpus = models.get(case.model), count_processors()
    return (
        backends.unable(ref, case)
        or device.load(case.device).unavailable()
        or (f"needs {case.threads} processors; this process may use {cpus}" if case.threads > cpus else None)
        or backends.unavailable(ref)
        or backends.cannot_run(ref, model.form)
        or cannot_convert(model, case.precision)
        or _cannot_mix(case, ref)
        or model.unavailable()
    )


def cannot_convert(model: models.ModelSpec, precision: str) -> str | None:
    """Why the harness cannot round the weights of the model to a precision; None where it can."""
    if not model.keeps_types or PRECISIONS[precision].dtype is None:
        return None
    return f"{model.name} keeps the element types that it was saved with; the case asks for {precision}"


def _cannot_mix(case: Case, ref: BackendRef) -> str | None:
    """Why precisions of single layers cannot be verified in the case; None where they can, or there are none."""
    if PRECISIONS[case.precision].kind != "rounded" or not backends.recipe(ref):
        return None
    return f"a recipe gives layers of a float32 model other precisions; the case rounds the model to {case.precision}"


def reference_case(case: Case, ref: BackendRef) -> Case:
    """The case whose right outputs the results of a backend are compared with: `case` with the recipe of `ref`."""
    chosen = backends.recipe(ref)
    return replace(case, recipe=chosen) if chosen else case


def judge(scratch: Path, answer: Mapping[str, Any], references: Sequence[Reference]) -> Judgement:
    """Compare one result for every input set with its reference; inputs must be as they were.

    Args:
        scratch: where the files of `answer` are.
        answer: what `Job.verify` returned.
        references: one for each input set.
    """
    references = verify.apply_rules(references, answer["rule"])
    relative = max_abs = 0.0
    reason = "the call changed its inputs" if answer["inputs_changed"] else None
    results = [outputs.read(scratch / name) for name in answer["files"]]
    for result, reference in zip(results, references, strict=True):
        verdict = verify.check(*result, reference)
        relative, max_abs = max(relative, verdict.relative), max(max_abs, verdict.max_abs)
        reason = reason or verdict.reason
    tolerances = [reference.tolerance(index) for reference in references for index in range(len(reference.dtypes))]
    accuracy = verify.accuracy([arrays for arrays, _ in results], references)
    error = Error(relative=relative, max_abs=max_abs, tolerance=max(tolerances, default=0.0))
    return Judgement(error, reason, accuracy)


def first_fault(scratch: Path, results: Sequence[Mapping[str, Any]], references: Sequence[Reference]) -> str | None:
    """What is wrong with the first wrong one of `results`; None where all are right.

    These are results of later calls, as `Job.warm` and `Job.sample` return them: an answer that was kept from another
    input set is found here.
    """
    for result in results:
        reference = verify.apply_rules(references, result["rule"])[result["seed"]]
        reason = verify.check(*outputs.read(scratch / result["file"]), reference).reason
        if reason is not None:
            return reason
    return None
