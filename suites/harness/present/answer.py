"""Which backend is the fastest, by how much, and how sure that is, in one sentence. Reads records only."""

from __future__ import annotations

from collections.abc import Sequence

from suites.harness.declare.case import BackendRef
from suites.harness.judge import judged_case
from suites.harness.judge.judged_case import JudgedCase
from suites.harness.present import names, units
from suites.harness.record.schema import Summary

MOST_CLAUSES = 3
"""Cases that are answered one by one; of more, only how often each backend is the fastest."""
HINT = "With --generations 10 the intervals are narrower: most differences of 3% are then detected."
_DOUBT = "are noisy or were disturbed"


def write_answer(summaries: Sequence[Summary]) -> str:
    """The sentence, and where it is not sure, what would make it surer."""
    judged = judged_case.judge_cases(summaries)
    timed = [one for one in judged if one.timed]
    if not timed:
        return "No backend has a time."
    doubtful: Sequence[str] = ()
    if len(timed) > MOST_CLAUSES:
        text = "; ".join(_count(timed, backend) for backend in dict.fromkeys(one.timed[0].backend for one in timed))
    else:
        places = names.describe_differences(summaries)
        doubtful = [places[one.case] for one in timed if one.is_doubtful and _is_sure(one)]
        text = "; ".join(_describe(one, places[one.case], is_only_doubt=len(doubtful) == 1) for one in timed)
    lost = len(judged) - len(timed)
    sentences = [f"Fastest: {text}."]
    if len(doubtful) > 1:
        which = "All these times" if len(doubtful) == len(timed) else f"The times {' and '.join(doubtful)}"
        sentences += [f"{which} {_DOUBT}: run them again on an idle machine."]
    sentences += _describe_precisions(timed, with_runner_up=len(timed) <= MOST_CLAUSES)
    sentences += [f"No backend has a time in {lost} other case{'s' if lost > 1 else ''}."] if lost else []
    sentences += [HINT] if any(one.margin is not None and not _is_sure(one) for one in timed) else []
    return " ".join(sentences)


def _is_sure(one: JudgedCase) -> bool:
    return one.margin is not None and one.margin.verdict == "faster"


def _describe_precisions(timed: Sequence[JudgedCase], *, with_runner_up: bool) -> list[str]:
    """A sentence for each backend of the answer that stores layers in other precisions than its cases: how, and the
    largest relative error, because its time was bought with accuracy.
    """
    found: dict[str, list[Summary]] = {}
    for one in timed:
        labels = [one.timed[0].backend] + ([one.margin.other] if with_runner_up and one.margin is not None else [])
        for row in (one.rows[label] for label in labels):
            if _describe_storage(row) is not None:
                found.setdefault(row.backend, []).append(row)
    sentences = []
    for label, rows in found.items():
        precisions = " and ".join(dict.fromkeys(row.precision for row in rows))
        error = max((row.error.relative for row in rows if row.error is not None), default=None)
        case = f"the case is {precisions}" if len(rows) == 1 else f"the cases are {precisions}"
        sentences.append(
            f"{label} stores layers {_describe_storage(rows[0])}, and {case}: its largest relative error is "
            f"{units.error(error)}."
        )
    return sentences


def _describe_storage(row: Summary) -> str | None:
    """How the label of a row says that layers are stored: ``in bf16``; None if that is as in the case."""
    options = BackendRef.parse(row.backend).options
    if "recipe" in options:
        return f"as {options['recipe']} says"
    precision = options.get("precision", row.precision)
    return None if precision == row.precision else f"in {precision}"


def _count(timed: Sequence[JudgedCase], backend: str) -> str:
    own = [one for one in timed if one.timed[0].backend == backend]
    return f"{backend} in {len(own)} of {len(timed)} cases, beyond noise in {sum(map(_is_sure, own))}"


def _describe(one: JudgedCase, place: str, *, is_only_doubt: bool) -> str:
    """The fastest backend of a case; what disturbed its times only where that is said of no other case."""
    text, lead = f"{one.timed[0].backend} {place}".strip(), one.margin
    if lead is None and len(one.timed) > 1:  # forms of one backend in a record that does not compare them
        return text
    if lead is None:
        return f"{text}, the only backend with a time"
    certainty = {"faster": "beyond noise", "same": "which is the same"}.get(lead.verdict, "within noise")
    if one.is_doubtful and _is_sure(one):
        certainty += " of this run"
        certainty += f", but its times {_DOUBT}: run it again on an idle machine" if is_only_doubt else ""
    value, interval = units.times(lead.speed.value), units.interval(lead.speed)
    if round(lead.speed.value, 2) < 1:  # medians and paired rounds give different orders
        return f"{text} by median latency, but {value} as fast as {lead.other} in paired rounds {interval}, {certainty}"
    return f"{text}, {value} as fast as {lead.other} {interval}, {certainty}"
