"""A history of commits: each against the one before it, and where a step is. Pure, from one stored run."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import SURE, Key, correct_verdict, group_samples, log_speeds
from suites.harness.record.commits import CommitRecord, CountedCase
from suites.harness.record.facts import columns
from suites.harness.record.schema import Samples, Speed, Verdict
from suites.harness.record.store import Run

COUNTS = columns("gates")
Note = Literal["first", "same code", "not timed", "failed", ""]


@dataclass(frozen=True)
class Point:
    """One commit in one case.

    Attributes:
        commit: the commit.
        verdict: on `speed`; `faster` and `slower` are steps: beyond noise and, with Holm's rule over all pairs of the
            run, at 95%. None where nothing was compared.
        note: why nothing was compared; `same code`: its engine is that of the commit before; `failed`: it was not
            built, or has no program.
        speed: against the commit before it, by paired rounds; None where nothing was timed.
        since_first: against the first commit, the product of these speeds; None after a commit without a program or
            a time.
        wide: `speed` with its 99% interval.
        generations: the paired speed of each generation of processes.
        changes: column -> (before, now), of the counts that differ.
        counts: column -> count.
        reason: why it failed.
    """

    commit: CommitRecord
    verdict: Verdict | None
    note: Note = ""
    speed: Speed | None = None
    since_first: Speed | None = None
    wide: Speed | None = None
    generations: tuple[float, ...] = ()
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None

    @property
    def is_step(self) -> bool:
        """True if its time differs from that of the commit before, beyond noise."""
        return self.verdict in SURE


@dataclass(frozen=True)
class Track:
    """One case over all commits, oldest first.

    Attributes:
        case: its id.
        seconds: median latency of the first commit; None if nothing was timed.
        samples: its median seconds in each generation in which it took turns with the commits behind it.
        floor: A/A floor of the case, relative; None if it was not measured.
        points: one for each commit.
    """

    case: str
    seconds: float | None
    samples: tuple[float, ...]
    floor: float | None
    points: tuple[Point, ...]


def follow(run: Run, noise: MachineNoise) -> list[Track]:
    """Every case of a run of ``enginebench history``.

    Args:
        run: a run with lines of kind `commit`.
        noise: the variance between processes on its machine, from the A/A pairs of its runs.
    """
    commits = run.of(CommitRecord)
    samples = group_samples(run.of(Samples))
    threads = {row.case: row.threads for row in run.summaries()}
    cases = list(dict.fromkeys(case for commit in commits for case in commit.cases))
    logs = {(case, commit): values for case in cases for commit, values in _compare(commits, case, samples)}
    estimates = {
        key: stats.estimate(values, noise.spread(threads.get(key[0], 1))) for key, values in logs.items() if values
    }
    raised = stats.holm([stats.p_value(estimate) for estimate in estimates.values()])
    p_values = dict(zip(estimates, raised, strict=True))
    return [_track(run, case, commits, samples, Compared(estimates, p_values, logs)) for case in cases]


Logs = Sequence[Sequence[float]]
WIDE = 0.99


@dataclass(frozen=True)
class Compared:
    """Each pair of neighbours of a run, by case and by the name of the later commit."""

    estimates: Mapping[Key, stats.Estimate]
    p_values: Mapping[Key, float]
    logs: Mapping[Key, Logs]


def _compare(
    commits: Sequence[CommitRecord], case: str, samples: Mapping[Key, list[Samples]]
) -> Iterator[tuple[str, Logs]]:
    """Name of a commit -> log-speeds of its rounds against those of the commit before, a list a generation."""
    built = [commit for commit in commits if commit.status == "built"]
    for before, commit in itertools.pairwise(built):
        if before.backend != commit.backend:
            mine, base = (samples.get((case, str(one.backend)), []) for one in (commit, before))
            yield commit.commit, log_speeds(mine, base)


def _track(
    run: Run,
    case: str,
    commits: Sequence[CommitRecord],
    samples: Mapping[Key, list[Samples]],
    compared: Compared,
) -> Track:
    timed = {key for key, lines in samples.items() if any(line.seconds for line in lines)}
    floor = next((row.floor for row in run.summaries() if row.case == case and row.floor is not None), None)
    within = run.environment.plan.same_within
    points: list[Point] = []
    before: CommitRecord | None = None
    total: stats.Estimate | None = stats.Estimate(0.0, 0.0, math.inf)
    for commit in commits:
        counted = commit.cases.get(case, CountedCase(reason=commit.reason))
        is_timed = (case, str(commit.backend)) in timed
        if commit.status != "built" or (counted.facts is None and not is_timed):
            points.append(Point(commit, None, "failed", reason=counted.reason or commit.reason))
            if commit.status == "built":
                before, total = commit, None
            continue
        key = (case, commit.commit)
        estimate = compared.estimates.get(key)
        is_same = before is not None and before.digest == commit.digest
        if before is not None and not is_same:
            total = _add(total, estimate)
        note: Note = "first" if before is None else "same code" if is_same else "not timed" if estimate is None else ""
        speed = None if estimate is None else stats.interval(estimate)
        verdict = None
        if speed is not None and not note:
            verdict = stats.verdict(speed, within, math.log1p(floor or 0.0))
            verdict = correct_verdict(verdict, compared.p_values[key])
        old, new = _list_counts(before.cases.get(case) if before else None), _list_counts(counted)
        points.append(
            Point(
                commit,
                verdict,
                note,
                speed,
                None if total is None else stats.interval(total),
                None if estimate is None else stats.interval(estimate, WIDE),
                tuple(math.exp(statistics.median(values)) for values in compared.logs.get(key, ())),
                {name: (old[name], new[name]) for name in new if name in old and old[name] != new[name]},
                new,
                counted.reason,
            )
        )
        before = commit
    label = str(next((commit.backend for commit in commits if commit.backend), None))
    medians = tuple(
        statistics.median(seconds for turn in line.seconds for seconds in turn)
        for line in samples.get((case, label), ())
        if line.status == "ok" and line.seconds
    )
    return Track(case, statistics.median(medians) if medians else None, medians, floor, tuple(points))


def _add(total: stats.Estimate | None, step: stats.Estimate | None) -> stats.Estimate | None:
    """The sum of two estimates, with the smaller of their degrees of freedom; None if one is missing."""
    if total is None or step is None:
        return None
    error = math.hypot(total.error, step.error)
    return stats.Estimate(total.centre + step.centre, error, min(total.degrees, step.degrees))


def _list_counts(counted: CountedCase | None) -> dict[str, int]:
    facts = None if counted is None else counted.facts
    return {} if facts is None else facts.model_dump(include=set(COUNTS), exclude_none=True)
