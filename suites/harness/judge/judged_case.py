"""Who is faster in each case, and what a reader must know before believing it. Pure: reads summaries only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from suites.backends.versions import ENGINE
from suites.harness.declare.case import BackendRef
from suites.harness.judge.summary import NEIGHBOURS_FLAG, SURE
from suites.harness.record.schema import Compared, Speed, Summary, Verdict

NOISY_FLOOR = 0.2
"""A case is marked noisy if two copies of its baseline differ by more than this share."""
NEAR_TOLERANCE = 0.5
"""A row is marked if its error is more than this share of what is allowed."""

Mark = Literal["noisy", "disturbed", "neighbours", "unclear neighbours", "error", "slow", "scheme"]

Certainty = Literal["certain", "unclear"]
LARGE_NEIGHBOURS = 0.1
"""From this share on, an effect of neighbours is marked although it is within noise: it may be chance, or large."""


@dataclass(frozen=True)
class Lead:
    """One row, mostly the engine's, against that of one other backend in a case.

    Attributes:
        other: label of the other backend.
        speed: of the row against the other, with its 95% interval.
        verdict: on that speed.
        detectable: smallest true difference, relative, that the comparison detects in 9 of 10 runs.
    """

    other: str
    speed: Speed
    verdict: Verdict
    detectable: float | None


@dataclass(frozen=True)
class JudgedCase:
    """One case: its rows, the engine's place among them, and marks.

    Attributes:
        case: its id.
        rows: label -> row, in the order of the record, without the second copy of the baseline.
        floor: A/A floor, relative; None if it was not measured.
        engine: the row of the engine as it is used; None if the engine took no part or has no time.
        lead: the engine against the fastest other backend; None if there is none.
        versions: the engine against each other version of it.
        marks: label -> what is to be known of that row; the key ``""`` is for the whole case.
    """

    case: str
    rows: Mapping[str, Summary]
    floor: float | None
    engine: Summary | None
    lead: Lead | None
    versions: tuple[Lead, ...]
    marks: Mapping[str, frozenset[Mark]]

    @property
    def timed(self) -> list[Summary]:
        """Rows that have a time, fastest first."""
        return sorted((row for row in self.rows.values() if row.latency), key=get_latency)

    @property
    def is_first(self) -> bool:
        """True if no other backend has a shorter median latency than the engine."""
        peers = [row for row in self.timed if row.role == "peer"]
        return self.engine is not None and all(get_latency(self.engine) <= get_latency(row) for row in peers)

    @property
    def has_only_forms(self) -> bool:
        """True if two or more rows have a time and all of these are forms of this checkout's engine."""
        return len(self.timed) > 1 and all(row.role == "engine" for row in self.timed)

    @property
    def is_doubtful(self) -> bool:
        """True if the times of the case are noisy or were disturbed."""
        return any(mark in ("noisy", "disturbed") for marks in self.marks.values() for mark in marks)

    @property
    def margin(self) -> Lead | None:
        """The fastest row over that of another backend, or over the next one if all are forms of one backend.

        None if they were not compared.
        """
        second = self.timed[0].runner_up if self.timed else None
        return None if second is None else lead_over(second)

    def best_forms(self) -> dict[str, Summary]:
        """Column -> row: forms of another backend share a column, which has the fastest one.

        Forms of the engine, and its other versions, have a column each. A column is named after the backend, or
        after the label if it is the engine's.
        """
        forms: dict[str, Summary] = {}
        for row in self.rows.values():
            column = get_column(row)
            best = forms.get(column)
            if best is None or (row.latency and (not best.latency or get_latency(row) < get_latency(best))):
                forms[column] = row
        return forms


def get_latency(row: Summary) -> float:
    """The median latency of a row, in seconds; ValueError if it has none."""
    if row.latency is None:
        raise ValueError(f"{row.case}, {row.backend}: {row.status}, so it has no latency")
    return row.latency.p50


def get_column(row: Summary) -> str:
    """The column of a row in an overview: see `JudgedCase.best_forms`."""
    return BackendRef.parse(row.backend).name if row.role == "peer" else row.backend


def judge_cases(summaries: Sequence[Summary]) -> list[JudgedCase]:
    """Every case, in the order of the record."""
    cases: dict[str, dict[str, Summary]] = {}
    for row in summaries:
        if row.backend != BackendRef.parse(row.baseline).again().label:
            cases.setdefault(row.case, {})[row.backend] = row
    return [_judge_case(case, rows) for case, rows in cases.items()]


def _judge_case(case: str, rows: Mapping[str, Summary]) -> JudgedCase:
    engine = _find_engine(rows)
    peer = engine.best_peer if engine is not None else None
    floor = next((row.floor for row in rows.values() if row.floor is not None), None)
    marks = {label: _mark_row(row) for label, row in rows.items()}
    marks[""] = frozenset({"noisy"} if floor is not None and floor > NOISY_FLOOR else ())
    versions = (engine.versions or []) if engine is not None else []
    return JudgedCase(
        case=case,
        rows=rows,
        floor=floor,
        engine=engine,
        lead=lead_over(peer) if peer is not None else None,
        versions=tuple(lead for lead in map(lead_over, versions) if lead is not None),
        marks={label: of_row for label, of_row in marks.items() if of_row},
    )


def _find_engine(rows: Mapping[str, Summary]) -> Summary | None:
    """The row of the engine without options; where none was planned, the fastest one of this checkout's engine.

    None if that row has no time: the time of another form, such as `engine_dynamo`, is not that of the engine.
    """
    plain = rows.get(ENGINE)
    if plain is not None:
        return plain if plain.latency else None
    ours = [row for row in rows.values() if row.role == "engine" and row.latency]
    return min(ours, key=get_latency, default=None)


def lead_over(compared: Compared) -> Lead | None:
    """A row over another one as a lead of the first; None if no rounds of the two pair."""
    if compared.speed is None or compared.verdict is None:
        return None
    return Lead(compared.backend, compared.speed, compared.verdict, compared.detectable)


def judge_neighbours(row: Summary) -> Certainty | None:
    """Whether neighbours surely make a row slower; None if they cost at most 3%, or it was not measured."""
    if row.neighbours is None or row.neighbours <= NEIGHBOURS_FLAG:
        return None
    return "certain" if row.neighbours_flagged else "unclear"


def find_scheme(row: Summary) -> str | None:
    """How the backend of a row quantises, where that is not as the precision defines."""
    scheme = (row.details or {}).get("scheme")
    return None if scheme is None else str(scheme)


def _mark_row(row: Summary) -> frozenset[Mark]:
    if row.latency is None:
        return frozenset()
    is_near = row.error is not None and row.error.relative > NEAR_TOLERANCE * row.error.tolerance
    is_large = not row.neighbours_flagged and (row.neighbours or 0.0) > LARGE_NEIGHBOURS
    marks: dict[Mark, Any] = {
        "disturbed": row.disturbed,
        "neighbours": row.neighbours_flagged,
        "unclear neighbours": is_large,
        "error": is_near,
        "slow": row.slow_launches,
        "scheme": find_scheme(row),
    }
    return frozenset(mark for mark, holds in marks.items() if holds)


@dataclass(frozen=True)
class Tally:
    """How often the engine is first.

    Attributes:
        cases: cases in which the engine and another backend have a time.
        first: cases in which no other backend has a shorter median.
        faster: those of `first` in which that is beyond noise.
        slower: those of the others in which that is beyond noise.
        without: cases in which the engine or every other backend has no time.
        doubtful: cases beyond noise whose times are noisy or were disturbed.
    """

    cases: int
    first: int
    faster: int
    slower: int
    without: int
    doubtful: int

    def __str__(self) -> str:
        """One sentence: ``Engine first in 8 of 8 cases, beyond noise in 6.``, or what else is true."""
        if not self.cases:
            return "No case has a time of the engine and of another backend."
        text = f"Engine first in {self.first} of {self.cases} case{'s' if self.cases > 1 else ''}"
        text += f", beyond noise in {self.faster}" if self.first else ""
        if self.first < self.cases:
            text += f"; another backend first in {self.cases - self.first}, beyond noise in {self.slower}"
        if self.doubtful:
            text += f"; {self.doubtful} of these with noisy or disturbed times"
        return f"{text}." + (f" {self.without} further without a comparison." if self.without else "")


def count_firsts(cases: Sequence[JudgedCase]) -> Tally:
    """How often the engine is first, over the cases that have a time of the engine and of another backend."""
    compared = [(case, case.lead.verdict) for case in cases if case.lead is not None]
    return Tally(
        cases=len(compared),
        first=sum(case.is_first for case, _ in compared),
        faster=sum(case.is_first and verdict == "faster" for case, verdict in compared),
        slower=sum(not case.is_first and verdict == "slower" for case, verdict in compared),
        without=len(cases) - len(compared),
        doubtful=sum(case.is_doubtful and verdict in SURE for case, verdict in compared),
    )
