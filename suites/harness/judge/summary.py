"""From the samples of a case to its summaries. Pure: everything comes from the record.

So a resumed run, and a reader of an old file, come to the same summary as the run that took the samples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suites import backends
from suites.backends.versions import ENGINE
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import label
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.record.facts import AllFacts, Facts
from suites.harness.record.roofs import Roofs, Work
from suites.harness.record.schema import Accuracy, Compared, Error, PerToken, Samples, Summary

NEIGHBOURS_FLAG = 0.03
"""From this share on, what the neighbours cost is flagged."""

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
    latest = {(line.backend, line.generation): line for line in lines}
    of = {ref.label: _ordered(latest, ref.label) for ref in question.refs}
    pair = log_speeds(of.get(question.twin, []), of.get(question.baseline, []))
    place = label(question.case.device)
    noise.add(question.case.threads, [statistics.median(values) for values in pair], place)
    spread = noise.spread(question.case.threads, place)
    floor = stats.floor_of(stats.speed(pair, spread)) if pair else None
    found = []
    for ref in question.refs:
        base = [] if ref.label == question.baseline else of.get(question.baseline, [])
        found.append(_summary(question, ref, of[ref.label], base, spread, floor))
    _place_under_roofs(question, found)
    peer, others = _best_peer(question, found), _other_versions(question, found)

    def over(mine: str, theirs: str) -> Compared:
        return Compared(backend=theirs, **judge_pair(of[mine], of[theirs], spread, floor, question.same_within))

    for ref, line in zip(question.refs, found, strict=True):
        if line.status != "ok" or line.role != "engine":
            continue
        if peer is not None:
            line.best_peer = over(ref.label, peer)
        if others and ref.name == ENGINE and ref.label != question.twin:
            line.versions = [over(ref.label, label) for label in others]
    ranked = _rank(question, found)
    second = _find_runner_up(ranked)
    if second is not None:
        ranked[0].runner_up = over(ranked[0].backend, second.backend)
    return found


def _find_runner_up(ranked: Sequence[Summary]) -> Summary | None:
    """The row that the first of `ranked` is compared with: of another backend, or else another form of the same."""
    if len(ranked) < 2:
        return None
    name = BackendRef.parse(ranked[0].backend).name
    return next((line for line in ranked if BackendRef.parse(line.backend).name != name), ranked[1])


def _place_under_roofs(question: Question, found: Sequence[Summary]) -> None:
    """Give every row its share of the roof, and the work of the case where the row counted none itself.

    The share of every row is computed from the work of the case (`find_work`), so that shares compare as latencies do.
    A row that counted its own operations and bytes keeps them: two runs of one program agree on them, whichever other
    backends take part.
    """
    source = find_work(found)
    if source is None:
        return
    roof = PRECISIONS[question.case.precision].roof
    work = Work(source.flops, source.bytes, roof, source.steps or 1)
    for line in found:
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


def _best_peer(question: Question, found: Sequence[Summary]) -> str | None:
    """Label of the peer with the shortest median latency; None where none has one."""
    return next((line.backend for line in _rank(question, found) if line.role == "peer"), None)


def _rank(question: Question, found: Sequence[Summary]) -> list[Summary]:
    """Rows that have a median latency, the shortest first, without the second copy of the baseline."""
    timed = [(line.latency.p50, line) for line in found if line.latency is not None and line.backend != question.twin]
    return [line for _, line in sorted(timed, key=lambda one: one[0])]


def _other_versions(question: Question, found: Sequence[Summary]) -> list[str]:
    """Labels of the other versions of the engine that the engine is compared with; `speed` tells of the baseline."""
    return [
        line.backend
        for line in found
        if line.role == "version" and line.status == "ok" and line.backend not in (question.baseline, question.twin)
    ]


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
    question: Question,
    ref: BackendRef,
    mine: Sequence[Samples],
    base: Sequence[Samples],
    spread: stats.Spread,
    floor: float | None,
) -> Summary:
    case = question.case
    bad = next((line for line in mine if line.status != "ok"), None)
    status, reason = (bad.status, bad.reason) if bad else ("ok", None)
    if not mine:
        status, reason = "failed", "no generation was finished"
    facts = next((line.facts for line in mine if line.facts != AllFacts()), AllFacts())
    line = Summary(
        case=case.id,
        model=case.model,
        shape=dict(case.shape),
        options=dict(case.options),
        threads=case.threads,
        precision=case.precision,
        switches={**case.switches, **ref.named_options},
        io=case.io,
        device=label(case.device),
        backend=ref.label,
        role=backends.role(ref),
        baseline=question.baseline,
        status=status,
        reason=reason,
        floor=math.expm1(floor) if floor is not None else None,
        aa_observations=spread.observations,
        error=_worst_error(mine),
        accuracy=_worst_accuracy(mine),
        note=next((one.note for one in mine if one.note), None),
        peak_rss_bytes=_peak(mine),
        run_peak_rss_bytes=_peak([one for one in mine[1:] if one.first_call_s is None]),
    )
    for name in PHASES:
        setattr(line, name, next((v for v in (getattr(one, name) for one in mine) if v is not None), None))
    for name in Facts.model_fields:
        setattr(line, name, getattr(facts, name))
    return _timed(line, question, mine, base, facts, spread, floor) if status == "ok" else line


def _timed(
    line: Summary,
    question: Question,
    mine: Sequence[Samples],
    base: Sequence[Samples],
    facts: AllFacts,
    spread: stats.Spread,
    floor: float | None,
) -> Summary:
    """`line` with what the times of a row that is right say."""
    latency = stats.latency([one.seconds for one in mine])
    per_token, ttft_s = _of_tokens(facts.tokens, latency.p50)
    neighbours, flagged = _neighbours(mine)
    return line.model_copy(
        update={
            "latency": latency,
            "throughput": question.case.shape.get("batch", 1) / latency.p50,
            "neighbours": neighbours,
            "neighbours_flagged": flagged,
            "disturbed": share_disturbed(mine),
            "s_per_token": per_token,
            "ttft_s": ttft_s,
            **judge_pair(mine, base, spread, 0.0 if line.backend == question.twin else floor, question.same_within),
        }
    )


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
    told = [(len(one.seconds), one.contention.disturbed) for one in mine if one.contention is not None]
    known = [(rounds, disturbed) for rounds, disturbed in told if disturbed is not None]
    rounds = sum(rounds for rounds, _ in known)
    return sum(disturbed for _, disturbed in known) / rounds if rounds else None


def _of_tokens(tokens: Mapping[str, int] | None, seconds: float) -> tuple[PerToken | None, float | None]:
    """`s_per_token` and `ttft_s` of a call that handles so many `tokens` a phase; None where it generates no text."""
    if not tokens:
        return None, None
    per_token = PerToken(**{phase: seconds / count for phase, count in tokens.items()})
    return per_token, seconds if "prefill" in tokens else None


def _ordered(latest: Mapping[tuple[str, int], Samples], label: str) -> list[Samples]:
    return [latest[key] for key in sorted(latest) if key[0] == label]


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
    return Error(**{name: max(getattr(one, name) for one in errors) for name in Error.model_fields})


def _worst_accuracy(mine: Sequence[Samples]) -> Accuracy | None:
    """Of the generations the largest errors and the smallest agreement; None where no case was quantised."""
    found = [line.accuracy for line in mine if line.accuracy is not None]
    if not found:
        return None
    agreed = [one.agreement for one in found if one.agreement is not None]
    relative, max_abs = (max(getattr(one, name) for one in found) for name in ("relative", "max_abs"))
    return Accuracy(relative=relative, max_abs=max_abs, agreement=min(agreed, default=None))
