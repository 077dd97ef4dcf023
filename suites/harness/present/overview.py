"""The overview of a run: one line a case, who wins, by how much, and what a reader must know. Reads records only.

`describe` says what is in it; `suites.harness.present.overview_terminal` and `overview_markdown` say how it looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from suites.backends.versions import ENGINE
from suites.harness.judge import standing
from suites.harness.judge.standing import Standing, get_latency
from suites.harness.present import names, notes, units
from suites.harness.record.schema import Environment, Summary

GUIDE = "docs/reading-results.md"
"""The page that explains every word of a table."""
_FOLDED = {"torch_compile": ("torch_", "compile"), "onnxruntime": ("onnx", "runtime")}
"""Name of a backend -> its parts that may stand one below the other."""
_STATUS_WORDS = {"unavailable": "n/a", "not applicable": "n/a"}


@dataclass(frozen=True)
class Time:
    """A latency in a cell.

    Attributes:
        text: the number in the unit of its line, or what happened instead.
        is_best: True for the fastest of its line.
    """

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class LeadCell:
    """The engine against another backend.

    Attributes:
        value: how many times as fast: ``1.08x``; empty if nothing was compared.
        interval: its 95% interval: ``[1.00, 1.17]``.
        verdict: on that speed.
    """

    value: str = ""
    interval: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Line:
    """One case.

    Attributes:
        name: short name of the case.
        unit: of the times.
        times: one a column, in order; None where the backend took no part.
        leads: one a column of `Overview.leads`.
        marks: a letter for each thing that a reader must know.
        floor: the A/A floor of the case: ``1.08x``; empty if it was not measured.
        is_doubtful: True if the times are noisy or were disturbed.
    """

    name: str
    unit: str
    times: tuple[Time | None, ...]
    leads: tuple[LeadCell, ...]
    marks: str
    floor: str
    is_doubtful: bool


@dataclass(frozen=True)
class Overview:
    """What an overview says.

    Attributes:
        heading: machine, commit, date, and the A/A floor.
        columns: backends, the engine last.
        leads: headings of comparisons of the engine: with the best other backend, and with its other versions.
        lines: one a case.
        closing: how often the engine is first.
        notes: what the marks mean, and why rows have no time.
    """

    heading: str
    columns: tuple[str, ...]
    leads: tuple[str, ...]
    lines: tuple[Line, ...]
    closing: str
    notes: tuple[str, ...]


BEST_OTHER = "vs best other"


def describe(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> Overview:
    """The overview of the rows of a run that began at `started`."""
    standings = standing.judge_cases(summaries)
    short = names.shorten_names(summaries)
    columns = _order_columns(standings)
    versions = list(dict.fromkeys(lead.other for one in standings for lead in one.versions))
    has_lead = any(one.lead is not None for one in standings)
    lines = tuple(_describe_line(one, short[one.case], columns, versions, has_lead=has_lead) for one in standings)
    common = names.describe_common(summaries)
    is_compared = has_lead or any(row.role == "engine" for row in summaries)
    return Overview(
        heading=f"{describe_place(environment, started, common)}; {describe_floor(standings)}",
        columns=tuple(columns),
        leads=(*([BEST_OTHER] if has_lead else []), *(f"vs {label}" for label in versions)),
        lines=lines,
        closing=str(standing.count_firsts(standings)) if is_compared else "",
        notes=(
            *_name_options(summaries),
            *_compare_forms(standings, short),
            *_name_forms(standings, short),
            *notes.explain(standings, short),
        ),
    )


def _name_options(summaries: Sequence[Summary]) -> Iterator[str]:
    """A line with the options that the short names leave out."""
    if options := names.describe_options(summaries):
        yield f"Options that all cases of a model have: {'; '.join(options)}."


def _compare_forms(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    """A line for each case that has forms of the engine only: the fastest one and its speed."""
    for one in standings:
        lead = one.margin if one.has_only_forms else None
        if lead is not None:
            value, interval = units.times(lead.speed.value), units.interval(lead.speed)
            first = f"{short[one.case]}: {one.timed[0].backend}"
            yield f"{first} is {value} as fast as {lead.other} {interval}: {lead.verdict}."


def _name_forms(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    """A line for each form of the engine that stands for the engine in comparisons, where a case has several forms."""
    cases: dict[str, list[str]] = {}
    for one in standings:
        is_compared = one.engine is not None and (one.lead is not None or one.versions)
        forms = [row for row in one.rows.values() if row.role == "engine"]
        if one.engine is not None and is_compared and len(forms) > 1 and one.engine.backend != ENGINE:
            cases.setdefault(one.engine.backend, []).append(short[one.case])
    for label, names_of_cases in cases.items():
        where = notes.name_cases(names_of_cases, standings, short)
        yield f"The comparisons of the engine are of {label}, its fastest form ({where})."


def describe_place(environment: Environment, started: datetime | None, common: str = "") -> str:
    """Machine, commit, date, and what all cases have in common."""
    commit = f"commit {environment.commit}{' (dirty)' if environment.dirty else ''}" if environment.commit else ""
    day = f"{started:%Y-%m-%d}" if started is not None else ""
    machine = [f"{environment.cpu}, {environment.cores} cores", *name_devices(environment)]
    return ", ".join(filter(None, [*machine, commit, day, common]))


def name_devices(environment: Environment) -> list[str]:
    """What the devices beside the processors are called, of those that say so."""
    return [str(facts["name"]) for facts in environment.devices.values() if facts.get("name")]


def describe_floor(standings: Sequence[Standing]) -> str:
    """The A/A floors of all cases as factors: ``A/A floor 1.07x to 1.21x``."""
    floors = sorted(1 + one.floor for one in standings if one.floor is not None)
    if not floors:
        return "A/A floor not measured"
    low, high = units.times(floors[0]), units.times(floors[-1])
    return f"A/A floor {low}" if low == high else f"A/A floor {low} to {high}"


def _order_columns(standings: Sequence[Standing]) -> list[str]:
    """Other backends, then other versions of the engine, then the engine, each in order of appearance."""
    roles = {column: row.role for one in standings for column, row in one.best_forms().items()}
    places = {"peer": 0, "version": 1, "engine": 2}
    return sorted(roles, key=lambda column: places[roles[column]])


def _describe_line(
    one: Standing, name: str, columns: Sequence[str], versions: Sequence[str], *, has_lead: bool
) -> Line:
    forms = one.best_forms()
    fastest = one.timed[0] if one.timed else None
    per_token = fastest is not None and is_per_token(fastest)
    unit, step = units.time_unit(get_time(fastest)) if fastest is not None else ("", 1.0)
    others = {lead.other: lead for lead in one.versions}
    leads = [one.lead] if has_lead else []
    leads += [others.get(label) for label in versions]
    return Line(
        name=name,
        unit=f"{unit}/token" if per_token else unit,
        times=tuple(_write_time(forms.get(column), fastest, step) for column in columns),
        leads=tuple(_write_lead(lead) for lead in leads),
        marks=notes.write_marks(one),
        floor="" if one.floor is None else units.times(1 + one.floor),
        is_doubtful=one.is_doubtful,
    )


def is_per_token(row: Summary) -> bool:
    """True if `get_time` is that of a token."""
    return row.s_per_token is not None and bool(row.s_per_token.decode)


def get_time(row: Summary) -> float:
    """Seconds of a call, or of a token where the case generates text."""
    decode = row.s_per_token.decode if row.s_per_token is not None else None
    return decode or get_latency(row)


def _write_time(row: Summary | None, fastest: Summary | None, step: float) -> Time | None:
    if row is None:
        return None
    if row.latency is None:
        return Time(_STATUS_WORDS.get(row.status, row.status))
    return Time(units.digits(get_time(row) / step), is_best=row is fastest)


def _write_lead(lead: standing.Lead | None) -> LeadCell:
    if lead is None:
        return LeadCell()
    return LeadCell(units.times(lead.speed.value), units.interval(lead.speed), lead.verdict)


def fold_label(label: str) -> list[str]:
    """A label in parts that may stand one below another: after ``torch_``, before ``@`` and before ``[``."""
    plain, bracket, options = label.partition("[")
    name, at, commit = plain.partition("@")
    parts = [*_FOLDED.get(name, (name,)), at + commit, bracket + options]
    return [part for part in parts if part]
