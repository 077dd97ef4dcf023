"""Time, bytes and accuracy of each backend and precision of a model, side by side. Reads records only.

The times of two precisions come from two cases, which ran one after the other. A speed is from medians of whole
generations, so a machine that became slower between the cases changes it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from suites.accuracy.evaluate import Row, strip_phase
from suites.accuracy.tasks import TASKS, Column
from suites.harness.declare.case import BackendRef
from suites.harness.judge import stats
from suites.harness.present.names import count_threads
from suites.harness.record.reasons import clean_line
from suites.harness.record.schema import AccuracyRecord, Environment, Samples, Speed, Summary

ROUNDING = 1e-6
"""Distances of outputs from float32 that are smaller than this count as none: orders of summation differ by as much."""


@dataclass(frozen=True)
class Entry:
    """One backend in one precision.

    Attributes:
        summary: its row.
        speed: against the base; None for the base.
        accuracy: its line; None if it was not scored.
        is_front: whether no other entry is faster at the same distance from float32 or at a smaller one.
    """

    summary: Summary
    speed: Speed | None
    accuracy: AccuracyRecord | None
    is_front: bool = False

    @property
    def distance(self) -> float | None:
        """1 - cosine of the outputs and those of float32; None if it was not measured."""
        cosine = self.accuracy.scores.get("cosine") if self.accuracy is not None else None
        if cosine is None:
            return None
        distance = 1 - cosine.value
        return distance if distance >= ROUNDING else 0.0

    @property
    def weight_bytes(self) -> int | None:
        """Of the constants, as the benchmark or else the line of accuracy says."""
        scored = self.accuracy.weight_bytes if self.accuracy is not None else None
        return scored if self.summary.weight_bytes is None else self.summary.weight_bytes


@dataclass(frozen=True)
class Tradeoff:
    """All entries of one model at one number of threads.

    Attributes:
        title: model, sizes, options and threads.
        base: what speeds are against: ``engine in fp32``.
        columns: of the task.
        headline: names of the two that matter most.
        data: which data, and how many items.
        entries: fastest first.
        reasons: why rows have no accuracy: ``backend, precision: reason``.
    """

    title: str
    base: str
    columns: Sequence[Column]
    headline: Sequence[str]
    data: str
    entries: Sequence[Entry]
    reasons: Sequence[str]


def list_tradeoffs(
    summaries: Sequence[Summary], samples: Sequence[Samples], lines: Sequence[AccuracyRecord], environment: Environment
) -> list[Tradeoff]:
    """One for each model and number of threads that has lines of accuracy; `samples` are for speeds across cases."""
    switches: dict[str, dict[str, str]] = {}
    for row in summaries:
        switches.setdefault(row.case, {}).update(_read_case_switches(row))
    groups: dict[str, list[Summary]] = {}
    for row in summaries:
        groups.setdefault(_name_group(row, switches[row.case]), []).append(row)
    found = (_compare(rows, samples, lines, environment.plan.baseline) for rows in groups.values())
    return [one for one in found if one is not None]


def list_reasons(rows: Iterable[AccuracyRecord | Row]) -> list[str]:
    """Why rows have no accuracy, a line for each of them."""
    lacking = (one for one in rows if one.status != "ok")
    return [f"{one.backend}, {one.precision}: {one.status}: {clean_line(one.reason)}" for one in lacking]


def _read_case_switches(row: Summary) -> dict[str, str]:
    """The switches of a row without the options of its backend, so that forms of one backend share a table."""
    options = BackendRef.parse(row.backend).options
    return {key: value for key, value in row.switches.items() if key not in options}


def _name_group(row: Summary, switches: Mapping[str, str]) -> str:
    """Equal for rows of one table; `switches` are those of the case."""
    named = [sorted(pairs.items()) for pairs in (row.shape, row.options, switches)]
    return repr((row.model, *named, row.threads, row.io, row.device))


def _compare(
    rows: Sequence[Summary], samples: Sequence[Samples], lines: Sequence[AccuracyRecord], baseline: str
) -> Tradeoff | None:
    first = rows[0]
    options = strip_phase(first.options)
    known = {
        (line.backend, line.precision): line for line in lines if (line.model, line.options) == (first.model, options)
    }
    timed = [row for row in rows if row.latency is not None and "#" not in row.backend]
    base = next((row for row in timed if row.backend == baseline), None)
    if not known or base is None:
        return None
    logs = {case: _logs_of(samples, case) for case in {row.case for row in timed}}
    base_logs = logs[base.case].get(base.backend, {})
    entries = [
        Entry(
            row,
            row.speed if row.case == base.case else _relate(logs[row.case].get(row.backend, {}), base_logs),
            known.get((row.backend, row.precision)),
        )
        for row in timed
    ]
    sizes = [f"{name} {size}" for name, size in first.shape.items()]
    further = [f"{key}={value}" for key, value in first.options.items()]
    some = next(iter(known.values()))
    return Tradeoff(
        ", ".join([first.model, *sizes, *further, count_threads(first.threads)]),
        f"{base.backend} in {base.precision}",
        TASKS[some.task].columns,
        TASKS[some.task].headline,
        f"{some.data}, {some.items}",
        list(_mark_front(sorted(entries, key=lambda one: _seconds(one.summary)))),
        list_reasons(known.values()),
    )


def _logs_of(samples: Sequence[Samples], case: str) -> Mapping[str, Mapping[int, float]]:
    """Backend -> generation -> logarithm of the median of its samples, of one case."""
    found: dict[str, dict[int, float]] = {}
    for line in samples:
        timed = [value for one in line.seconds for value in one]
        if line.case == case and line.status == "ok" and timed:
            found.setdefault(line.backend, {})[line.generation] = math.log(statistics.median(timed))
    return found


def _relate(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Speed | None:
    """The speed of one case against another, from generations with the same number; None if there are none."""
    both = sorted(set(mine) & set(theirs))
    return stats.speed([[theirs[one] - mine[one]] for one in both], stats.spread_of([])) if both else None


def _seconds(row: Summary) -> float:
    assert row.latency is not None  # noqa: S101  # `_compare` keeps rows that have one
    return row.latency.p50


def _mark_front(entries: Sequence[Entry]) -> Iterator[Entry]:
    """`entries`, fastest first, with `is_front`."""
    least: float | None = None
    for one in entries:
        distance = one.distance
        is_front = distance is not None and (least is None or distance < least)
        if is_front:
            least = distance
        yield replace(one, is_front=is_front)
