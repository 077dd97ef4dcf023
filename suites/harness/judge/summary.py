"""From the samples of a case to its summaries. Pure: everything comes from the record.

So a resumed run, and a reader of an old file, come to the same summary as the run that took the samples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suites import backends
from suites.backends.versions import ENGINE
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import label as label_device
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.record.facts import AllFacts, Facts
from suites.harness.record.roofs import Roofs, Work
from suites.harness.record.schema import Accuracy, Compared, Error, PerToken, Samples, Summary, Verdict

NEIGHBOURS_FLAG = 0.03
"""From this share on, what the neighbours cost is flagged."""

SURE: tuple[Verdict, ...] = ("faster", "slower")
"""Verdicts that are beyond noise."""

Key = tuple[str, str]
"""Case, and label of a backend."""

PHASES = ("import_s", "export_s", "compile_s", "first_call_s")


@dataclass(frozen=True)
class Question:
    """What a summary is about.

    Attributes:
        case: the case.
        refs: who took part, in order; the second copy of the baseline among them.
        baseline: label that speeds are against.
        same_within: see `stats.verdict`.
        roofs: what the machine can do at most; without, no row has a share of it.
        cache_bytes: of the last cache of the device; None: of the processors.
    """

    case: Case
    refs: Sequence[BackendRef]
    baseline: str
    same_within: float
    roofs: Roofs | None = None
    cache_bytes: int | None = None

    @property
    def twin(self) -> str:
        """Label of the second copy of the baseline."""
        return BackendRef.parse(self.baseline).again().label


def summarise(question: Question, lines: Sequence[Samples], noise: MachineNoise) -> list[Summary]:
    """One summary a backend, from the samples of the case. Adds the case's A/A medians to `noise`."""
    samples = {label: rounds for (_, label), rounds in group_samples(lines).items()}
    pair = log_speeds(samples.get(question.twin, []), samples.get(question.baseline, []))
    place = label_device(question.case.device)
    noise.add(question.case.threads, [statistics.median(values) for values in pair], place)
    spread = noise.spread(question.case.threads, place)
    floor = stats.floor_of(stats.speed(pair, spread)) if pair else None

    def judge_labels(mine: str, theirs: str, floor: float | None) -> dict[str, Any]:
        return judge_pair(samples.get(mine, []), samples.get(theirs, []), spread, floor, question.same_within)

    def compare(mine: Summary, theirs: Summary) -> Compared:
        return Compared(backend=theirs.backend, **judge_labels(mine.backend, theirs.backend, floor))

    rows = []
    for ref in question.refs:
        row = _summary(question, ref, samples.get(ref.label, []), spread, floor)
        if row.status == "ok" and ref.label != question.baseline:
            own_floor = 0.0 if ref.label == question.twin else floor
            row = row.model_copy(update=judge_labels(ref.label, question.baseline, own_floor))
        rows.append(row)
    _place_under_roofs(question, rows)
    own = (question.baseline, question.twin)
    versions = [row for row in rows if row.role == "version" and row.status == "ok" and row.backend not in own]
    # Ranked are the rows that have a time, without the second copy of the baseline.
    timed = [(row.latency.p50, row) for row in rows if row.latency is not None and row.backend != question.twin]
    ranked = [row for _, row in sorted(timed, key=lambda item: item[0])]
    best_peer = next((row for row in ranked if row.role == "peer"), None)
    for ref, row in zip(question.refs, rows, strict=True):
        if row.status == "ok" and row.role == "engine":
            row.best_peer = None if best_peer is None else compare(row, best_peer)
            if versions and ref.name == ENGINE and ref.label != question.twin:
                row.versions = [compare(row, version) for version in versions]
    if len(ranked) > 1:
        # The next row of another backend, or else another form of the same.
        name = BackendRef.parse(ranked[0].backend).name
        second = next((row for row in ranked if BackendRef.parse(row.backend).name != name), ranked[1])
        ranked[0].runner_up = compare(ranked[0], second)
    return rows


def group_samples(lines: Iterable[Samples]) -> dict[Key, list[Samples]]:
    """Samples of each row, by generation: the last line of each, because a resumed run may have written one again."""
    latest = {(line.generation, line.case, line.backend): line for line in lines}
    rows: dict[Key, list[Samples]] = {}
    for (_, case, backend), line in sorted(latest.items(), key=lambda item: item[0]):
        rows.setdefault((case, backend), []).append(line)
    return rows


def correct_verdict(verdict: Verdict, p: float) -> Verdict:
    """A verdict in a family of comparisons, where `p` is raised by `stats.holm`."""
    return "unclear" if verdict in SURE and p >= 1 - stats.CONFIDENCE else verdict


def _place_under_roofs(question: Question, rows: Sequence[Summary]) -> None:
    """Give every row its share of the roof, and the work of the case where the row counted none itself.

    The share of every row is computed from the work of the case (`find_work`), so that shares compare as latencies do.
    A row that counted its own operations and bytes keeps them: two runs of one program agree on them, whichever other
    backends take part.
    """
    source = find_work(rows)
    if source is None:
        return
    roof = PRECISIONS[question.case.precision].roof
    work = Work(source.flops, source.bytes, roof, source.steps or 1)
    for line in rows:
        if line.flops is None and line.bytes is None:
            line.flops, line.bytes = work.flops, work.nbytes
        if question.roofs is not None and line.latency is not None:
            threads, seconds = question.case.threads, line.latency.p50
            line.roof_share = question.roofs.share(work, threads, seconds, question.cache_bytes)
            if line.executed_flops is not None:
                done = replace(work, flops=line.executed_flops)
                line.executed_share = question.roofs.share(done, threads, seconds, question.cache_bytes)


def find_work(rows: Iterable[Summary]) -> Summary | None:
    """The row of a case whose operations and bytes are the work of the case; None if no engine counted them.

    It is the engine without options if it took part, else the first of its other rows, else another version.
    """
    counted = [line for line in rows if line.role != "peer" and line.flops is not None]
    return min(
        counted, key=lambda line: (line.role != "engine", bool(BackendRef.parse(line.backend).options)), default=None
    )


def judge_pair(
    mine: Sequence[Samples], theirs: Sequence[Samples], spread: stats.Spread, floor: float | None, same_within: float
) -> dict[str, Any]:
    """`speed`, `verdict` and `detectable` of one backend over another; null where no rounds pair.

    Args:
        mine: samples of one backend in the case, a line a generation.
        theirs: the same of the other backend.
        spread: between processes, of this machine.
        floor: A/A floor of the case as a logarithm; None where it was not measured.
        same_within: see `stats.verdict`.
    """
    pair = log_speeds(mine, theirs)
    if not pair:
        return {"speed": None, "verdict": None, "detectable": None}
    estimate = stats.estimate(pair, spread)
    speed = stats.interval(estimate)
    return {
        "speed": speed,
        "verdict": stats.verdict(speed, same_within, floor or 0.0),
        "detectable": math.expm1(stats.detectable(estimate, floor or 0.0)),
    }


def _summary(
    question: Question, ref: BackendRef, mine: Sequence[Samples], spread: stats.Spread, floor: float | None
) -> Summary:
    case = question.case
    bad = next((line for line in mine if line.status != "ok"), None)
    status, reason = (bad.status, bad.reason) if bad else ("ok", None)
    if not mine:
        status, reason = "failed", "no generation was finished"
    facts = next((line.facts for line in mine if line.facts != AllFacts()), AllFacts())
    known: dict[str, Any] = {name: getattr(facts, name) for name in Facts.model_fields}
    known |= {name: next((v for line in mine if (v := getattr(line, name)) is not None), None) for name in PHASES}
    row = Summary(
        case=case.id,
        model=case.model,
        shape=dict(case.shape),
        options=dict(case.options),
        threads=case.threads,
        precision=case.precision,
        switches={**case.switches, **ref.named_options},
        io=case.io,
        device=label_device(case.device),
        backend=ref.label,
        role=backends.role(ref),
        baseline=question.baseline,
        status=status,
        reason=reason,
        floor=math.expm1(floor) if floor is not None else None,
        aa_observations=spread.observations,
        error=_worst_error(mine),
        accuracy=_worst_accuracy(mine),
        note=next((line.note for line in mine if line.note), None),
        peak_rss_bytes=_peak(mine),
        run_peak_rss_bytes=_peak([line for line in mine[1:] if line.first_call_s is None]),
        **known,
    )
    if status == "ok":
        row.latency = stats.latency([line.seconds for line in mine])
        seconds = row.latency.p50
        row.throughput = case.shape.get("batch", 1) / seconds
        row.neighbours, row.neighbours_flagged = _neighbours(mine)
        row.disturbed = share_disturbed(mine)
        if facts.tokens:
            row.s_per_token = PerToken(**{phase: seconds / count for phase, count in facts.tokens.items()})
            row.ttft_s = seconds if "prefill" in facts.tokens else None
    return row


def _peak(lines: Sequence[Samples]) -> int | None:
    return max((line.peak_rss_bytes for line in lines if line.peak_rss_bytes), default=None)


def _neighbours(mine: Sequence[Samples]) -> tuple[float | None, bool | None]:
    """Time with the others awake over time with all of them stopped, less 1, by pairs of turns that lie close together.

    The median, since one turn may be hit by chance. Flagged where it is over 3% and the 95% interval of the mean lies
    above none at all: some neighbours disturb every second turn, and leave the others as they are.
    """
    logs = [
        math.log(statistics.median(beside) / statistics.median(alone))
        for line in mine
        if line.status == "ok"
        for beside, alone in zip(line.beside, line.alone, strict=False)  # early records have turns of one kind only
    ]
    if not logs:
        return None, None
    longer = math.expm1(statistics.median(logs))
    is_sure = len(logs) > 1 and statistics.fmean(logs) > stats.quantile(len(logs) - 1) * stats.mean_error(logs)
    return longer, is_sure and longer > NEIGHBOURS_FLAG


def share_disturbed(mine: Sequence[Samples]) -> float | None:
    """Share of a backend's rounds that other processes disturbed. None if that was not watched."""
    watched = [(line, line.contention.disturbed) for line in mine if line.contention is not None]
    known = [(len(line.seconds), disturbed) for line, disturbed in watched if disturbed is not None]
    rounds = sum(rounds for rounds, _ in known)
    return sum(disturbed for _, disturbed in known) / rounds if rounds else None


def log_speeds(mine: Sequence[Samples], base: Sequence[Samples]) -> list[list[float]]:
    """Per generation that both finished, the log-speeds of the rounds, from the samples of one case."""
    theirs = {line.generation: line.seconds for line in base if line.status == "ok"}
    pairs = [
        stats.log_speeds(line.seconds, theirs[line.generation])
        for line in mine
        if line.status == "ok" and line.generation in theirs
    ]
    return [values for values in pairs if values]


def _worst_error(mine: Sequence[Samples]) -> Error | None:
    errors = [line.error for line in mine if line.error is not None]
    if not errors:
        return None
    return Error(**{name: max(getattr(error, name) for error in errors) for name in Error.model_fields})


def _worst_accuracy(mine: Sequence[Samples]) -> Accuracy | None:
    """Of the generations the largest errors and the smallest agreement; None where no case was quantised."""
    known = [line.accuracy for line in mine if line.accuracy is not None]
    if not known:
        return None
    return Accuracy(
        relative=max(accuracy.relative for accuracy in known),
        max_abs=max(accuracy.max_abs for accuracy in known),
        agreement=min((accuracy.agreement for accuracy in known if accuracy.agreement is not None), default=None),
    )
