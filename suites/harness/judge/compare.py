"""Two stored runs side by side: what is counted, exactly, and what may be said of time. Pure: all is in the records.

Counts of the engine's programs (launches, bytes, ...) are the same every time: a larger one is a regression, and gates.
Times of two runs were not taken in turn: each is set against the baseline of its own run, and they never gate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from suites.harness.declare.case import SAME_WITHIN, BackendRef
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import Key, correct_verdict, group_samples, log_speeds
from suites.harness.record import store
from suites.harness.record.facts import AllFacts, columns
from suites.harness.record.schema import Environment, Samples, Speed, Summary, Verdict

EXACT = columns("gates")
"""Columns of the engine's rows, other versions included, that only change when the program does; more is worse."""

ALLOWED_GROWTH = {"artifact_bytes": (4096, 0.001)}
"""Column -> bytes, and share of the value before, by the larger of which it may grow without being worse.

A file holds the constants and a document about the program. The document grows by some hundred bytes when a name or a
source line does, and that costs nobody anything; `weight_bytes` compares the constants exactly.
"""

IS_BASELINE = "the other rows are relative to this backend or to its first copy"
NO_COMMON_ROUNDS = "one of the runs, or both, did not measure the row and its baseline in common rounds"


@dataclass(frozen=True)
class Time:
    """Speed of the later run against the earlier one, where each is against the baseline of its run.

    Attributes:
        speed: with its 95% interval.
        p: of no difference, raised by Holm's rule over all rows of the comparison.
        verdict: on that speed; None where the environments differ, so that it says nothing of the code.
        is_control: True for what did not change: peers, and other versions of the engine with the same content in both
            runs.
    """

    speed: Speed
    p: float
    verdict: Verdict | None
    is_control: bool


@dataclass(frozen=True)
class Row:
    """A backend in a case, in both runs.

    Attributes:
        changes: column -> (before, after), where both are known and differ.
        regressions: names in `changes` that are worse; ``status`` where a row stopped being ok.
        unknown: column -> (before, after), where only one of the two is known: not comparable, and so never worse.
        time: None where the times cannot be compared.
        no_time: why `time` is None; None where there is a time.
        is_counted: True if counts were compared: both runs know some. Only the status is compared of peers, and of rows
            that are not ok in both runs.
    """

    case: str
    backend: str
    changes: Mapping[str, tuple[Any, Any]]
    regressions: tuple[str, ...]
    time: Time | None
    unknown: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    is_counted: bool = True
    no_time: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Two runs.

    Attributes:
        rows: of cases and backends that both have.
        gone: (case, backend) that only the earlier run has.
        new: those that only the later one has.
        differences: column -> (before, after) where the environments differ: times are not comparable then.
        missing: rows that the later run planned and does not have: it did not end, or its file was cut.
        missing_before: rows that the earlier run planned and does not have.
    """

    rows: tuple[Row, ...]
    gone: tuple[tuple[str, str], ...]
    new: tuple[tuple[str, str], ...]
    differences: Mapping[str, tuple[Any, Any]]
    missing: tuple[tuple[str, str], ...] = ()
    missing_before: tuple[tuple[str, str], ...] = ()

    @property
    def regressed(self) -> bool:
        """Whether anything that is counted became worse, or was to be looked at and is not there."""
        return bool(self.missing) or any(row.regressions for row in self.rows)

    @property
    def is_counted(self) -> bool:
        """Whether counts were compared in some row."""
        return any(row.is_counted for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        return asdict(self) | {"regressed": self.regressed}


def compare(before: store.Run, after: store.Run, noise: MachineNoise) -> Comparison:
    """What changed from `before` to `after`.

    Raises:
        UsageError: the runs are one and the same, are of different machines, or have no case or no backend of a case in
            common.
    """
    if before.path.resolve() == after.path.resolve():
        raise UsageError(
            f"the earlier and the later run are both {before.name}; name an earlier run first: "
            "`enginebench list runs` shows them, newest first"
        )
    if before.environment.machine != after.environment.machine:
        machines = before.environment.machine, after.environment.machine
        raise UsageError(f"{before.name} is of {machines[0]}, {after.name} of {machines[1]}: not comparable")
    old, new = (_summaries(run) for run in (before, after))
    both = {key: (old[key], new[key]) for key in old if key in new}
    if not both:
        raise UsageError(f"{before.name} and {after.name} have no row in common")
    differences = _compare_environments(before.environment, after.environment)
    estimates = _estimate_speeds(before, after, both, noise)
    controls = {key for key in estimates if _is_control(new[key], before.environment, after.environment)}
    times = _judge_times(estimates, controls, comparable=not differences)
    return Comparison(
        tuple(_row(key, *rows, times.get(key)) for key, rows in both.items()),
        tuple(key for key in old if key not in new),
        tuple(key for key in new if key not in old),
        differences,
        _list_missing(after, new),
        _list_missing(before, old),
    )


def _summaries(run: store.Run) -> dict[Key, Summary]:
    """Summaries of a run by case and backend, with the operations and bytes that the backend counted itself.

    Early records have those of the engine's program in every summary; the samples have the row's own.
    """
    facts: dict[Key, AllFacts] = {}
    for line in run.of(Samples):
        if line.facts.flops is not None or line.facts.bytes is not None:
            facts.setdefault((line.case, line.backend), line.facts)
    rows = {(line.case, line.backend): line for line in run.summaries()}
    counted = {key: {"flops": facts[key].flops, "bytes": facts[key].bytes} for key in rows.keys() & facts.keys()}
    return {key: row.model_copy(update=counted.get(key)) for key, row in rows.items()}


def _list_missing(run: store.Run, rows: Mapping[Key, Summary]) -> tuple[Key, ...]:
    planned = run.environment.plan.cases
    return tuple((case, label) for case, labels in planned.items() for label in labels if (case, label) not in rows)


def _compare_environments(before: Environment, after: Environment) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in ("kernel", "governor", "python")}
    packages = {**before.versions, **after.versions}.keys() - {"enginebench"}
    pairs |= {name: (before.versions.get(name), after.versions.get(name)) for name in sorted(packages)}
    others = ((before.surroundings or {}, after.surroundings or {}), (before.plan.files, after.plan.files))
    for old, new in others:
        pairs |= {name: (old[name], new[name]) for name in old if name in new}  # early records lack some
    return {name: (old, new) for name, (old, new) in pairs.items() if old != new}


def _row(key: Key, old: Summary, new: Summary, time: Time | None) -> Row:
    # A row without a result has no counts: its status says so, and the counts need not say it again.
    names = EXACT if new.role != "peer" and old.status == new.status == "ok" else ()
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in ("status", *names)}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    unknown = {name: pair for name, pair in differing.items() if None in pair}
    changes = {name: pair for name, pair in differing.items() if name not in unknown}
    worse = [name for name in names if name in changes and exceeds_allowance(name, *changes[name])]
    if old.status == "ok" and new.status in ("wrong", "failed", "timeout"):
        worse.insert(0, "status")
    is_counted = any(None not in pairs[name] for name in names)
    why = None if time is not None else _explain_no_time(key, old, new) or NO_COMMON_ROUNDS
    return Row(*key, changes, tuple(worse), time, unknown, is_counted=is_counted, no_time=why)


def _explain_no_time(key: Key, old: Summary, new: Summary) -> str | None:
    """Why the summaries of a row allow no comparison of its times; None where they allow it."""
    if not old.status == new.status == "ok":
        return f"the status is {old.status} before and {new.status} after, and only a row that is ok has a time"
    if old.baseline != new.baseline:
        return f"a time is relative to the baseline of its run, which is {old.baseline} before and {new.baseline} after"
    return IS_BASELINE if key[1].removesuffix("#2") == old.baseline else None


def exceeds_allowance(name: str, before: int, after: int) -> bool:
    """True if the column has grown by more than it may."""
    least_bytes, share = ALLOWED_GROWTH.get(name, (0, 0.0))
    return after - before > max(least_bytes, share * before)


def _estimate_speeds(
    before: store.Run, after: store.Run, rows: Mapping[Key, tuple[Summary, Summary]], noise: MachineNoise
) -> dict[Key, stats.Estimate]:
    """Of each row whose times can be compared, later against earlier run."""
    samples = [group_samples(run.of(Samples)) for run in (before, after)]
    estimates: dict[Key, stats.Estimate] = {}
    for key, (old, new) in rows.items():
        base = (key[0], old.baseline)
        logs = [log_speeds(lines.get(key, ()), lines.get(base, ())) for lines in samples]
        if all(logs) and _explain_no_time(key, old, new) is None:
            first, second = (stats.estimate(rounds, noise.spread(old.threads)) for rounds in logs)
            # The two are independent. Their difference is known as well as the one that is known less well.
            error = math.hypot(first.error, second.error)
            degrees = min(first.degrees, second.degrees)
            estimates[key] = stats.Estimate(second.centre - first.centre, error, degrees)
    return estimates


def _is_control(row: Summary, before: Environment, after: Environment) -> bool:
    """True where the code is the same in both runs: of peers, and of another version of the engine by its digest."""
    version = BackendRef.parse(row.backend).name
    old, new = (environment.plan.engines.get(version) for environment in (before, after))
    return row.role == "peer" or (old is not None and old == new)


def _judge_times(
    estimates: Mapping[Key, stats.Estimate], controls: Collection[Key], *, comparable: bool
) -> dict[Key, Time]:
    """Verdicts. Backends that did not change are controls: what moved their speed moved from one run to the other, so
    less than the largest of these moves in a case is `unclear`.
    """
    p_values = stats.holm([stats.p_value(estimate) for estimate in estimates.values()])
    speeds = {key: stats.interval(estimate) for key, estimate in estimates.items()}
    times = {}
    for (key, speed), p in zip(speeds.items(), p_values, strict=True):
        moves = [abs(math.log(speeds[control].value)) for control in controls if control[0] == key[0]]
        verdict = correct_verdict(stats.verdict(speed, SAME_WITHIN, max(moves, default=0.0)), p)
        times[key] = Time(speed, p, verdict if comparable else None, key in controls)
    return times


def lines(comparison: Comparison) -> Iterator[dict[str, str]]:
    """The rows as text for a table."""
    for row in comparison.rows:
        counts = []
        for name, pair in {**row.changes, **row.unknown}.items():
            remark = " (worse)" if name in row.regressions else " (not comparable)" if name in row.unknown else ""
            counts.append(describe_change(name, *pair) + remark)
        speed = None if row.time is None else row.time.speed
        yield {
            "case": row.case,
            "backend": row.backend,
            "counted": ", ".join(counts) or ("as before" if row.is_counted else "-"),
            "speed": "-" if speed is None else f"{speed.value:.3f} [{speed.low:.3f}, {speed.high:.3f}]",
            "verdict": "-" if row.time is None else row.time.verdict or "",
            "control": "yes" if row.time is not None and row.time.is_control else "",
        }


def explain_missing_times(comparison: Comparison) -> list[str]:
    """A sentence for each reason why the times of some rows are not compared.

    None for the baseline, because every comparison has one, and none for a status that changed, because `lines` has it.
    """
    rows: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row.no_time is not None and row.no_time != IS_BASELINE and "status" not in row.changes:
            rows.setdefault(row.no_time, []).append(f"{row.case} {row.backend}")
    return [f"Not compared is the time of {', '.join(names)}: {reason}." for reason, names in rows.items()]


def describe_change(name: str, before: Any, after: Any) -> str:
    """``launches 26 -> 27``, with ``none`` for what is not known."""
    texts = [
        "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in (before, after)
    ]
    return f"{name} {' -> '.join(texts)}"
