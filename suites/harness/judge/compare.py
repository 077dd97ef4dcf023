"""Two stored runs side by side: what is counted, exactly, and what may be said of time. Pure: all is in the records.

Counts of the engine's programs (launches, bytes, ...) are the same every time: a larger one is a regression, and gates.
Times of two runs were not taken in turn: each is set against the baseline of its own run, and they never gate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from suites.harness.declare.case import SAME_WITHIN, BackendRef
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.standing import SURE
from suites.harness.judge.summary import log_speeds
from suites.harness.record import store
from suites.harness.record.facts import columns
from suites.harness.record.schema import Environment, Samples, Speed, Summary, Verdict

EXACT = columns("gates")
"""Columns of the engine's rows, other versions included, that only change when the program does; more is worse."""

ALLOWED_GROWTH = {"artifact_bytes": (4096, 0.001)}
"""Column -> bytes, and share of the value before, by the larger of which it may grow without being worse.

A file holds the constants and a document about the program. The document grows by some hundred bytes when a name or a
source line does, and that costs nobody anything; `weight_bytes` compares the constants exactly.
"""

SURROUNDINGS = ("kernel", "governor", "python", "versions")
"""What must be the same for times to be comparable."""

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
        surroundings: column -> (before, after) where the environments differ: times are not comparable then.
        missing: rows that the later run planned and does not have: it did not end, or its file was cut.
        missing_before: rows that the earlier run planned and does not have.
    """

    rows: tuple[Row, ...]
    gone: tuple[tuple[str, str], ...]
    new: tuple[tuple[str, str], ...]
    surroundings: Mapping[str, tuple[Any, Any]]
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
            f"the earlier and the later run are both {before.name}: a run compared with itself shows no change. Name "
            "an earlier run first; `enginebench list runs` shows them, newest first. If you name "
            "one run alone, or `last` second, the later run is the newest that has cases in common with the earlier one"
        )
    machines = [run.environment.machine for run in (before, after)]
    if machines[0] != machines[1]:
        raise UsageError(f"{before.name} is of {machines[0]}, {after.name} of {machines[1]}: not comparable")
    old, new = (_summaries(run) for run in (before, after))
    both = [key for key in old if key in new]
    if not both:
        shared = {case for case, _ in old} & {case for case, _ in new}
        missing = "backend in common in any case" if shared else "case in common"
        raise UsageError(f"{before.name} and {after.name} have no {missing}")
    differing = _differing(before.environment, after.environment)
    estimates = _times(before, after, {key: (old[key], new[key]) for key in both}, noise)
    controls = {key for key in estimates if _is_control(new[key], before.environment, after.environment)}
    times = _judged(estimates, controls, SAME_WITHIN, comparable=not differing)
    return Comparison(
        tuple(_row(key, old[key], new[key], times.get(key)) for key in both),
        tuple(key for key in old if key not in new),
        tuple(key for key in new if key not in old),
        differing,
        _missing(after, new),
        _missing(before, old),
    )


Key = tuple[str, str]


def _summaries(run: store.Run) -> dict[Key, Summary]:
    """Summaries of a run by case and backend, with the operations and bytes that the backend counted itself.

    Early records have those of the engine's program in every summary; the samples have the row's own.
    """
    own: dict[Key, Samples] = {}
    for line in run.of(Samples):
        if line.facts.flops is not None or line.facts.bytes is not None:
            own.setdefault((line.case, line.backend), line)
    found = {(line.case, line.backend): line for line in run.summaries()}
    for key in own.keys() & found.keys():
        facts = own[key].facts
        found[key] = found[key].model_copy(update={"flops": facts.flops, "bytes": facts.bytes})
    return found


def _missing(run: store.Run, found: Mapping[Key, Summary]) -> tuple[Key, ...]:
    planned = run.environment.plan.cases
    return tuple((case, label) for case, labels in planned.items() for label in labels if (case, label) not in found)


def _differing(before: Environment, after: Environment) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for name in SURROUNDINGS:
        one, other = getattr(before, name), getattr(after, name)
        if isinstance(one, dict) and isinstance(other, dict):  # the packages that differ, and not all of them
            names = [key for key in {**one, **other} if key != "enginebench" and one.get(key) != other.get(key)]
            found |= {key: (one.get(key), other.get(key)) for key in names}
        elif one != other:
            found[name] = (one, other)
    one, other = before.surroundings, after.surroundings
    if one and other:  # early records do not have them
        found |= {name: (one.get(name), other.get(name)) for name in one if one.get(name) != other.get(name)}
    one, other = before.plan.files, after.plan.files
    found |= {name: (one[name], other[name]) for name in one if name in other and one[name] != other[name]}
    return found


def _row(key: Key, old: Summary, new: Summary, time: Time | None) -> Row:
    case, backend = key
    # A row without a result has no counts: its status says so, and the counts need not say it again.
    names = EXACT if new.role != "peer" and old.status == new.status == "ok" else ()
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in ("status", *names)}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    unknown = {name: pair for name, pair in differing.items() if None in pair}
    changes = {name: pair for name, pair in differing.items() if name not in unknown}
    worse = [name for name, (one, other) in changes.items() if name != "status" and _is_worse(name, one, other)]
    if old.status == "ok" and new.status in ("wrong", "failed", "timeout"):
        worse.insert(0, "status")
    is_counted = any(None not in pairs[name] for name in names)
    why = None if time is not None else _explain_no_time(key, old, new) or NO_COMMON_ROUNDS
    return Row(case, backend, changes, tuple(worse), time, unknown, is_counted=is_counted, no_time=why)


def _explain_no_time(key: Key, old: Summary, new: Summary) -> str | None:
    """Why the summaries of a row allow no comparison of its times; None where they allow it."""
    if not old.status == new.status == "ok":
        return f"the status is {old.status} before and {new.status} after, and only a row that is ok has a time"
    if old.baseline != new.baseline:
        return f"a time is relative to the baseline of its run, which is {old.baseline} before and {new.baseline} after"
    if key[1].removesuffix("#2") == old.baseline:
        return IS_BASELINE
    return None


def _is_worse(name: str, before: int, after: int) -> bool:
    """True if the column has grown by more than it may."""
    least_bytes, share = ALLOWED_GROWTH.get(name, (0, 0.0))
    return after - before > max(least_bytes, share * before)


def _times(
    before: store.Run, after: store.Run, rows: Mapping[Key, tuple[Summary, Summary]], noise: MachineNoise
) -> dict[Key, stats.Estimate]:
    """Of each row whose times can be compared."""
    samples = [_samples(run) for run in (before, after)]
    found: dict[Key, stats.Estimate] = {}
    for key, (old, new) in rows.items():
        if _explain_no_time(key, old, new) is not None:
            continue
        base = (key[0], old.baseline)
        logs = [log_speeds(lines.get(key, ()), lines.get(base, ())) for lines in samples]
        if all(logs):
            found[key] = _difference(*(stats.estimate(one, noise.spread(old.threads)) for one in logs))
    return found


def _samples(run: store.Run) -> dict[Key, list[Samples]]:
    latest = {(line.case, line.backend, line.generation): line for line in run.of(Samples)}
    found: dict[Key, list[Samples]] = {}
    for (case, backend, _), line in sorted(latest.items(), key=lambda one: one[0][2]):
        found.setdefault((case, backend), []).append(line)
    return found


def _difference(before: stats.Estimate, after: stats.Estimate) -> stats.Estimate:
    """Of two independent estimates; known as well as the one that is known less well."""
    error = math.hypot(before.error, after.error)
    return stats.Estimate(after.centre - before.centre, error, min(before.degrees, after.degrees))


def _is_control(line: Summary, before: Environment, after: Environment) -> bool:
    """True where the code is the same in both runs: of peers, and of another version of the engine by its digest."""
    if line.role == "peer":
        return True
    told = [run.plan.engines.get(BackendRef.parse(line.backend).name) for run in (before, after)]
    return told[0] is not None and told[0] == told[1]


def _judged(
    found: Mapping[Key, stats.Estimate], controls: Collection[Key], same_within: float, *, comparable: bool
) -> dict[Key, Time]:
    """Verdicts. Backends that did not change are controls: what moved their speed moved from one run to the other, so
    less than the largest of these moves in a case is `unclear`.
    """
    raised = dict(zip(found, stats.holm([stats.p_value(one) for one in found.values()]), strict=True))
    speeds = {key: stats.interval(one) for key, one in found.items()}
    answer = {}
    for key, speed in speeds.items():
        moves = [abs(math.log(one.value)) for name, one in speeds.items() if name[0] == key[0] and name in controls]
        verdict = stats.verdict(speed, same_within, max(moves, default=0.0))
        if verdict in SURE and raised[key] >= 1 - stats.CONFIDENCE:
            verdict = "unclear"
        answer[key] = Time(speed, raised[key], verdict if comparable else None, key in controls)
    return answer


def lines(found: Comparison) -> Iterator[dict[str, str]]:
    """The rows as text for a table: those that changed, or that time says something of."""
    for row in found.rows:
        counted = [
            f"{name} {_count(one)} -> {_count(other)}{' (worse)' if name in row.regressions else ''}"
            for name, (one, other) in row.changes.items()
        ]
        counted += [
            f"{name} {_count(one)} -> {_count(other)} (not comparable)" for name, (one, other) in row.unknown.items()
        ]
        time = row.time
        yield {
            "case": row.case,
            "backend": row.backend,
            "counted": ", ".join(counted) or ("as before" if row.is_counted else "-"),
            "speed": "-" if time is None else _interval(time.speed),
            "verdict": "-" if time is None else time.verdict or "",
            "control": "yes" if time is not None and time.is_control else "",
        }


def explain_missing_times(found: Comparison) -> list[str]:
    """A sentence for each reason why the times of some rows are not compared.

    None for the baseline, because every comparison has one, and none for a status that changed, because `lines` has it.
    """
    rows: dict[str, list[str]] = {}
    for row in found.rows:
        if row.no_time is not None and row.no_time != IS_BASELINE and "status" not in row.changes:
            rows.setdefault(row.no_time, []).append(f"{row.case} {row.backend}")
    return [f"Not compared is the time of {', '.join(names)}: {reason}." for reason, names in rows.items()]


def _interval(speed: Speed) -> str:
    return f"{speed.value:.3f} [{speed.low:.3f}, {speed.high:.3f}]"


def _count(value: Any) -> str:
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def surroundings(found: Mapping[str, tuple[Any, Any]], packages: Collection[str] = ()) -> Sequence[str]:
    """A line for each difference of the environments: ``triton: 3.7.1 -> not installed``.

    Args:
        found: `Comparison.surroundings`.
        packages: the names in it that are of packages, which None says are not installed; other things are unknown.
    """

    def describe(name: str, value: Any) -> str:
        return str(value) if value is not None else "not installed" if name in packages else "unknown"

    return [f"{name}: {describe(name, one)} -> {describe(name, other)}" for name, (one, other) in found.items()]
