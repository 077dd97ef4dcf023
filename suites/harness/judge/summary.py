"""From the lines of a case's generations to its summary lines. Pure: everything comes from the record.

So a resumed run, and a reader of an old file, come to the same summary as the run that made the lines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suites import backends
from suites.backends.versions import ENGINE, is_version
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import label
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge import stats
from suites.harness.judge.history import History
from suites.harness.record.roofs import Roofs, Work
from suites.harness.record.store import Line

FACTS = (
    "arena_bytes",
    "arena_lower_bound_bytes",
    "weight_bytes",
    "artifact_bytes",
    "flops",
    "executed_flops",
    "bytes",
    "steps",
    "nodes",
    "launches",
    "fallback_nodes",
    "graph_breaks",
    "run_digest",
)
"""Columns that a backend may tell about itself."""

TOKEN_PHASES = ("prefill", "decode")
"""Keys of `s_per_token`. A call of phase prefill ends with the first token: its time is `ttft_s`."""

NEIGHBOURS_FLAG = 0.03
"""From this share on, what the neighbours cost is flagged."""

PHASES = ("import_s", "export_s", "compile_s", "first_call_s")


@dataclass(frozen=True)
class Question:
    """What a summary is about.

    Attributes:
        case: the case.
        refs: who took part, in order; the second copy of the baseline among them.
        baseline: label that ratios are against.
        same_within: see `stats.verdict`.
        roofs: what the machine can do at most; without, no row has a share of it.
    """

    case: Case
    refs: Sequence[BackendRef]
    baseline: str
    same_within: float
    roofs: Roofs | None = None

    @property
    def twin(self) -> str:
        """Label of the second copy of the baseline."""
        return BackendRef.parse(self.baseline).again().label


def summarise(question: Question, lines: Sequence[Line], history: History) -> list[Line]:
    """One summary line a backend, from the `samples` lines of the case. Adds the case's A/A medians to `history`."""
    latest = {(line["backend"], line["generation"]): line for line in lines}
    of = {ref.label: _ordered(latest, ref.label) for ref in question.refs}
    pair = log_ratios(of.get(question.twin, []), of.get(question.baseline, []))
    place = label(question.case.device)
    history.add(question.case.threads, [statistics.median(values) for values in pair], place)
    spread = history.spread(question.case.threads, place)
    floor = stats.floor_of(stats.ratio(pair, spread)) if pair else None
    found = []
    for ref in question.refs:
        base = [] if ref.label == question.baseline else of.get(question.baseline, [])
        found.append(_summary(question, ref, of[ref.label], base, spread, floor))
    _place_under_roofs(question, found)
    peer, others = _best_peer(question, found), _other_versions(question, found)

    def over(mine: str, theirs: str) -> Line:
        return {"backend": theirs, **_judged(question, of[mine], of[theirs], spread, floor)}

    for ref, line in zip(question.refs, found, strict=True):
        if line["status"] != "ok" or not backends.ours(ref):
            continue
        if peer is not None:
            line["best_peer"] = over(ref.label, peer)
        if others and ref.name == ENGINE and ref.label != question.twin:
            line["versions"] = [over(ref.label, label) for label in others]
    return found


def _place_under_roofs(question: Question, found: Sequence[Line]) -> None:
    """Give every row the operations and bytes of the case, and its share of the roof.

    What a case has to do is what the engine's program says, with everything on where it took part, and that of this
    checkout before other versions: the same for everybody, so that shares compare as latencies do.
    """
    told = [
        ((not backends.ours(ref), bool(ref.options)), line)
        for ref, line in zip(question.refs, found, strict=True)
        if backends.is_engine(ref) and line["flops"] is not None
    ]
    if not told:
        return
    source = min(told, key=lambda one: one[0])[1]
    roof = PRECISIONS[question.case.precision].roof
    work = Work(source["flops"], source["bytes"], roof, source["steps"] or 1)
    for line in found:
        line["flops"], line["bytes"] = work.flops, work.nbytes
        if question.roofs is not None and line["latency"] is not None:
            threads, seconds = question.case.threads, line["latency"]["p50"]
            line["roof_share"] = question.roofs.share(work, threads, seconds)
            if line["executed_flops"] is not None:
                done = replace(work, flops=line["executed_flops"])
                line["executed_share"] = question.roofs.share(done, threads, seconds)


def _best_peer(question: Question, found: Sequence[Line]) -> str | None:
    """Label of the peer with the shortest median latency; None where none has one."""
    latencies = {
        line["backend"]: line["latency"]["p50"]
        for ref, line in zip(question.refs, found, strict=True)
        if not backends.is_engine(ref) and line["status"] == "ok" and ref.label != question.twin
    }
    return min(latencies, key=latencies.__getitem__) if latencies else None


def _other_versions(question: Question, found: Sequence[Line]) -> list[str]:
    """Labels of the other versions of the engine that the engine is compared with; `ratio` tells of the baseline."""
    return [
        ref.label
        for ref, line in zip(question.refs, found, strict=True)
        if is_version(ref.name) and line["status"] == "ok" and ref.label not in (question.baseline, question.twin)
    ]


def _judged(
    question: Question, mine: Sequence[Line], theirs: Sequence[Line], spread: stats.Spread, floor: float | None
) -> Line:
    """`ratio`, `verdict` and `detectable` of one backend over another; null where no rounds pair."""
    pair = log_ratios(mine, theirs)
    if not pair:
        return {"ratio": None, "verdict": None, "detectable": None}
    estimate = stats.estimate(pair, spread)
    ratio = stats.interval(estimate)
    return {
        "ratio": ratio.to_dict(),
        "verdict": stats.verdict(ratio, question.same_within, floor or 0.0),
        "detectable": math.expm1(stats.detectable(estimate, floor or 0.0)),
    }


def _summary(
    question: Question,
    ref: BackendRef,
    mine: Sequence[Line],
    base: Sequence[Line],
    spread: stats.Spread,
    floor: float | None,
) -> Line:
    case = question.case
    bad = next((line for line in mine if line["status"] != "ok"), None)
    status, reason = (bad["status"], bad["reason"]) if bad else ("ok", None)
    if not mine:
        status, reason = "failed", "no generation was finished"
    facts: Mapping[str, Any] = next((line["facts"] for line in mine if line.get("facts")), {})
    phases = {name: next((line[name] for line in mine if line.get(name) is not None), None) for name in PHASES}
    line: Line = {
        "kind": "summary",
        "case": case.id,
        "model": case.model,
        "shape": dict(case.shape),
        "options": dict(case.options),
        "threads": case.threads,
        "precision": case.precision,
        "switches": {**case.switches, **ref.options},
        "io": case.io,
        "device": label(case.device),
        "backend": ref.label,
        "baseline": question.baseline,
        "status": status,
        "reason": reason,
        "latency": None,
        "throughput": None,
        "ratio": None,
        "verdict": None,
        "detectable": None,
        "best_peer": None,
        "versions": None,
        "floor": math.expm1(floor) if floor is not None else None,
        "aa_observations": spread.observations,
        "error": _worst_error(mine),
        "note": next((line["note"] for line in mine if line.get("note")), None),
        "accuracy": _worst_accuracy(mine),
        **phases,
        "s_per_token": None,
        "ttft_s": None,
        "peak_rss_bytes": _peak(mine),
        "run_peak_rss_bytes": _peak([line for line in mine if line.get("first_call_s") is None]),
        "neighbours": None,
        "neighbours_flagged": None,
        "disturbed": None,
        "roof_share": None,
        "executed_share": None,
        **{name: facts.get(name) for name in FACTS},
    }
    if status == "ok":
        line["latency"] = stats.latency([one["seconds"] for one in mine])
        line["throughput"] = case.shape.get("batch", 1) / line["latency"]["p50"]
        line |= {**_neighbours(mine), "disturbed": _disturbed(mine)}
        line |= _of_tokens(facts.get("tokens"), line["latency"]["p50"])
        line |= _judged(question, mine, base, spread, 0.0 if ref.label == question.twin else floor)
    return line


def _peak(lines: Sequence[Line]) -> int | None:
    return max((line["peak_rss_bytes"] for line in lines if line.get("peak_rss_bytes")), default=None)


def _neighbours(mine: Sequence[Line]) -> Line:
    """Time with the others awake over time with all of them stopped, less 1, by pairs of turns that lie close together.

    The median, since one turn may be hit by chance. Flagged where it is over 3% and the 95% interval of the mean lies
    above none at all: some neighbours disturb every second turn, and leave the others as they are.
    """
    logs = [
        math.log(statistics.median(beside) / statistics.median(alone))
        for line in mine
        if line["status"] == "ok"
        for beside, alone in zip(line.get("beside", []), line.get("alone", []), strict=False)  # earlier records: none
    ]
    if not logs:
        return {"neighbours": None, "neighbours_flagged": None}
    longer = math.expm1(statistics.median(logs))
    is_sure = len(logs) > 1 and statistics.fmean(logs) > stats.quantile(len(logs) - 1) * stats.mean_error(logs)
    return {"neighbours": longer, "neighbours_flagged": is_sure and longer > NEIGHBOURS_FLAG}


def _disturbed(mine: Sequence[Line]) -> float | None:
    """Share of the rounds that others disturbed and that were kept all the same."""
    told = [line for line in mine if "disturbed" in (line.get("contention") or {})]  # earlier records have none
    rounds = sum(len(line["seconds"]) for line in told)
    return sum(line["contention"]["disturbed"] for line in told) / rounds if rounds else None


def _of_tokens(tokens: Mapping[str, int] | None, seconds: float) -> Line:
    """`s_per_token` and `ttft_s` of a call that handles so many `tokens` a phase; null where it generates no text."""
    if not tokens:
        return {"s_per_token": None, "ttft_s": None}
    per_token = {phase: seconds / tokens[phase] if phase in tokens else None for phase in TOKEN_PHASES}
    return {"s_per_token": per_token, "ttft_s": seconds if "prefill" in tokens else None}


def _ordered(latest: Mapping[tuple[str, int], Line], label: str) -> list[Line]:
    return [latest[key] for key in sorted(latest) if key[0] == label]


def log_ratios(mine: Sequence[Line], base: Sequence[Line]) -> list[list[float]]:
    """Per generation that both finished, the log-ratios of the rounds, from `samples` lines of one case."""
    theirs = {line["generation"]: line["seconds"] for line in base if line["status"] == "ok"}
    pairs = [
        stats.log_ratios(line["seconds"], theirs[line["generation"]])
        for line in mine
        if line["status"] == "ok" and line["generation"] in theirs
    ]
    return [values for values in pairs if values]


def _worst_error(mine: Sequence[Line]) -> dict[str, Any] | None:
    errors = [line["error"] for line in mine if line.get("error")]
    if not errors:
        return None
    # not finite numbers are stored as text; they are worse than any number
    return {name: max((e[name] for e in errors), key=float) for name in ("relative", "max_abs", "tolerance")}


def _worst_accuracy(mine: Sequence[Line]) -> dict[str, Any] | None:
    """Of the generations the largest errors and the smallest agreement; null where no case was quantised."""
    found = [line["accuracy"] for line in mine if line.get("accuracy")]
    if not found:
        return None
    agreed = [one["agreement"] for one in found if one["agreement"] is not None]
    worst: dict[str, Any] = {name: max((one[name] for one in found), key=float) for name in ("relative", "max_abs")}
    return {**worst, "agreement": min(agreed, default=None)}
