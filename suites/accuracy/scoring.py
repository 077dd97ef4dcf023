"""Scores the backends of a finished run, and adds the results to its file. Times nothing.

A model is scored once for each backend and precision. The number of threads and the phase of generating text do not
change what is computed, and the data has its own sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.processors import count_processors
from suites import models
from suites.accuracy import evaluate
from suites.accuracy.evaluate import EXACT, Row, Subject, strip_phase
from suites.accuracy.tasks import Task
from suites.backends import versions
from suites.backends.base import Backend
from suites.harness.declare.case import BackendRef, Case, Scalar
from suites.harness.declare.device import CPU
from suites.harness.record import machine, store
from suites.harness.record.schema import AccuracyRecord, Score
from suites.harness.run.plan import RunPlan
from suites.harness.run.reporter import Reporter
from suites.harness.run.runner import Interrupted


@dataclass
class Group:
    """The backends and precisions of one model that are to be scored; `shape` is that of the first case."""

    model: str
    options: Mapping[str, Scalar]
    shape: Mapping[str, int]
    subjects: list[Subject] = field(default_factory=list)


def list_groups(plan: RunPlan, run: store.Run) -> list[Group]:
    """The backends of a run that were right in some case and have no line of accuracy yet, by model."""
    right = {(line.case, line.backend) for line in run.summaries() if line.status == "ok"}
    known = {_key_of(line) for line in run.of(AccuracyRecord)}
    found: dict[str, Group] = {}
    for case, refs in plan.cases:
        if not _is_scored(case):
            continue
        options = strip_phase(case.options)
        group = found.setdefault(_key(case.model, options), Group(case.model, options, case.shape))
        for ref in refs:
            key = _key(case.model, options, case.precision, ref.label)
            is_row = (case.id, ref.label) in right and ref.copy == 1 and not versions.is_version(ref.name)
            if is_row and key not in known and (ref.label, case.precision) != EXACT:
                known.add(key)
                group.subjects.append(Subject(ref, case.precision))
    return [group for group in found.values() if group.subjects]


def _is_scored(case: Case) -> bool:
    is_plain = case.device == CPU and case.io == "torch" and not case.switches
    return is_plain and models.get(case.model).form in Backend.runs


def _key(model: str, options: Mapping[str, Scalar], *more: str) -> str:
    return repr((model, sorted(options.items()), *more))


def _key_of(line: AccuracyRecord) -> str:
    return _key(line.model, line.options, line.precision, line.backend)


def score(plan: RunPlan, path: Path, reporter: Reporter) -> list[AccuracyRecord]:
    """Score what a run still lacks, and append a line for each row to its file as soon as it is known.

    Returns:
        All lines of accuracy of the run, earlier ones too.

    Raises:
        Interrupted: on Ctrl-C; every line so far is stored.
    """
    run = store.read(path)
    groups = list_groups(plan, run)
    found = {_key_of(line): line for line in run.of(AccuracyRecord)}
    if groups:
        reporter.start(sum(1 + len(group.subjects) for group in groups), "accuracy")
    try:
        with store.Writer(path, resume=True) as writer:
            for line in itertools.chain.from_iterable(_score_group(group, reporter) for group in groups):
                if _key_of(line) not in found:  # resumed scoring computes eager in float32 again
                    writer.append(line)
                    found[_key_of(line)] = line
    except KeyboardInterrupt:
        raise Interrupted(path) from None
    return list(found.values())


def _score_group(group: Group, reporter: Reporter) -> Iterator[AccuracyRecord]:
    """A line for each subject of a group; before them that of eager in float32."""
    from suites.accuracy import datasets  # here, because it imports torch, as few commands do

    name = models.get(group.model).name
    missing = datasets.missing(name)
    if missing is not None:
        reporter.say(f"accuracy of {group.model}: its data is missing: {missing}")
        return
    reporter.doing(f"accuracy of {group.model}: reading the data")
    dataset = datasets.read(name, {**group.shape, **group.options}, None)
    rows = evaluate.evaluate(group.model, dataset, group.subjects, count_processors(), reporter.doing)
    exact = Subject(BackendRef(EXACT[0]), EXACT[1])
    for subject, row in zip([exact, *group.subjects], rows, strict=True):
        reporter.advance()
        if row.status == "failed":
            reporter.say(f"accuracy of {group.model}: {row.backend}, {row.precision}: failed: {row.reason}")
        yield _make_line(group, dataset.task, subject, row)


def _make_line(group: Group, task: Task, subject: Subject, row: Row) -> AccuracyRecord:
    now = machine.revision()
    return AccuracyRecord.model_validate(
        {
            "model": group.model,
            "options": dict(group.options),
            "precision": subject.precision,
            "backend": subject.ref.label,
            "status": row.status,
            "reason": row.reason,
            "task": task.name,
            "data": task.data,
            "items": task.items,
            "weight_bytes": row.weight_bytes,
            "scores": {name: Score(**asdict(one)) for name, one in row.estimates.items()},
            "commit": now["commit"],
            "dirty": now["dirty"],
        }
    )


def list_missing_data(plan: RunPlan) -> list[str]:
    """What to fetch before the accuracy of all models of a plan can be scored: ``model: run enginebench data ...``."""
    from suites.accuracy import datasets  # here, because it imports torch, as few commands do

    names = dict.fromkeys(models.get(case.model).name for case, _ in plan.cases if _is_scored(case))
    return [f"{name}: {reason}" for name in names if (reason := datasets.missing(name)) is not None]
