"""The overview of a run: one line a case, who wins, by how much, and what a reader must know. Reads records only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from suites.backends.versions import ENGINE
from suites.harness.judge import judged_case
from suites.harness.judge.judged_case import JudgedCase, get_latency
from suites.harness.present import markdown, names, notes, units
from suites.harness.present.report import GUIDE, Paragraph, Part
from suites.harness.present.table import BEST, BREAK, Cell, Column, Table
from suites.harness.present.terminal import VERDICT_STYLES
from suites.harness.record.schema import Environment, Summary

_STATUS_WORDS = {"unavailable": "n/a", "not applicable": "n/a"}
BEST_OTHER = "vs best other"


@dataclass(frozen=True)
class Time:
    """A latency in the unit of its line, or what happened instead; and whether it is the fastest."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class LeadCell:
    """Speed of the engine against another backend, its 95% interval and verdict; empty if nothing was compared."""

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
        columns: backends, the engine first.
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


def make_report(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> list[Part]:
    """Machine, table, how often the engine is first, what the words and marks mean, and all versions."""
    found = describe(summaries, environment, started)
    legend = "Median latency of a call, lower is better, the fastest is marked"
    if BEST_OTHER in found.leads:
        legend += (
            f". {BEST_OTHER}: speed of the engine against the fastest other backend, with its 95% interval; "
            "above 1 the engine is faster"
        )
    return [
        Paragraph(f"{found.heading}."),
        _make_table(found),
        *([Paragraph(found.closing, "bold")] if found.closing else []),
        Paragraph(legend, "dim", guide=GUIDE),
        *(Paragraph(note, "dim", is_note=True) for note in found.notes),
        describe_versions(environment),
    ]


def _make_table(found: Overview) -> Table:
    has_marks = any(line.marks for line in found.lines)
    columns = [Column("case")]
    for heading in found.leads:  # the answer comes first: a narrow page hides what is on the right
        first, rest = heading.split(" ", 1)
        columns += [Column(f"{first}\n{fold_label(rest)}"), Column()]
    columns += [Column("unit"), *(Column(fold_label(name), "right") for name in found.columns)]
    table = Table([*columns, Column("A/A floor", level=1), *([Column()] if has_marks else [])])
    for line in found.lines:
        cells: list[Cell | str] = [line.name.replace(" ", "\n", 1)]
        for lead in line.leads:
            cells += [
                f"{lead.value}\n{lead.interval}".strip(),
                Cell(lead.verdict, VERDICT_STYLES.get(lead.verdict, "")),
            ]
        times = ("" if one is None else Cell(one.text, BEST if one.is_best else "") for one in line.times)
        marks = [line.marks] if has_marks else []
        table.add(*cells, line.unit, *times, line.floor, *marks, style="dim" if line.is_doubtful else "")
    return table


def describe_versions(environment: Environment) -> Paragraph:
    """The details of a report: machine, commit and versions."""
    return Paragraph(markdown.heading(environment), "dim", details="Machine and versions")


def describe(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> Overview:
    """The overview of the rows of a run that began at `started`."""
    judged = judged_case.judge_cases(summaries)
    short = names.shorten_names(summaries)
    columns = _order_columns(judged)
    versions = list(dict.fromkeys(lead.other for one in judged for lead in one.versions))
    has_lead = any(one.lead is not None for one in judged)
    lines = tuple(_describe_line(one, short[one.case], columns, versions, has_lead=has_lead) for one in judged)
    is_compared = has_lead or any(row.role == "engine" for row in summaries)
    return Overview(
        heading=describe_heading(summaries, judged, environment, started),
        columns=tuple(columns),
        leads=(*([BEST_OTHER] if has_lead else []), *(f"vs {label}" for label in versions)),
        lines=lines,
        closing=str(judged_case.count_firsts(judged)) if is_compared else "",
        notes=(
            *_name_options(summaries),
            *_compare_forms(judged, short),
            *_name_forms(judged, short),
            *notes.explain(judged, short),
        ),
    )


def _name_options(summaries: Sequence[Summary]) -> Iterator[str]:
    """A line with the options that the short names leave out."""
    if options := names.describe_options(summaries):
        yield f"Options that all cases of a model have: {'; '.join(options)}."


def _compare_forms(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    """A line for each case that has forms of the engine only: the fastest one and its speed."""
    for one in judged:
        lead = one.margin if one.has_only_forms else None
        if lead is not None:
            value, interval = units.times(lead.speed.value), units.interval(lead.speed)
            first = f"{short[one.case]}: {one.timed[0].backend}"
            yield f"{first} is {value} as fast as {lead.other} {interval}: {lead.verdict}."


def _name_forms(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    """A line for each form of the engine that stands for the engine in comparisons, where a case has several forms."""
    cases: dict[str, list[str]] = {}
    for one in judged:
        is_compared = one.engine is not None and (one.lead is not None or one.versions)
        forms = [row for row in one.rows.values() if row.role == "engine"]
        if one.engine is not None and is_compared and len(forms) > 1 and one.engine.backend != ENGINE:
            cases.setdefault(one.engine.backend, []).append(short[one.case])
    for label, names_of_cases in cases.items():
        where = notes.name_cases(names_of_cases, judged, short)
        yield f"The comparisons of the engine are of {label}, its fastest form ({where})."


def describe_heading(
    summaries: Sequence[Summary], judged: Sequence[JudgedCase], environment: Environment, started: datetime | None
) -> str:
    """Machine, commit, date, what all cases have in common, and the A/A floors."""
    place = describe_place(environment, started, names.describe_common(summaries))
    return f"{place}; {describe_floor(judged)}"


def describe_place(environment: Environment, started: datetime | None, common: str = "") -> str:
    """Machine, commit, date, and what all cases have in common."""
    commit = f"commit {environment.commit}{' (dirty)' if environment.dirty else ''}" if environment.commit else ""
    day = f"{started:%Y-%m-%d}" if started is not None else ""
    machine = [f"{environment.cpu}, {environment.cores} cores", *name_devices(environment)]
    return ", ".join(filter(None, [*machine, commit, day, common]))


def name_devices(environment: Environment) -> list[str]:
    """What the devices beside the processors are called, of those that say so."""
    return [str(facts["name"]) for facts in environment.devices.values() if facts.get("name")]


def describe_floor(judged: Sequence[JudgedCase]) -> str:
    """The A/A floors of all cases as factors: ``A/A floor 1.07x to 1.21x``."""
    floors = sorted(1 + one.floor for one in judged if one.floor is not None)
    if not floors:
        return "A/A floor not measured"
    low, high = units.times(floors[0]), units.times(floors[-1])
    return f"A/A floor {low}" if low == high else f"A/A floor {low} to {high}"


def _order_columns(judged: Sequence[JudgedCase]) -> list[str]:
    """The engine, then other backends, then other versions of the engine, each in order of appearance."""
    roles = {column: row.role for one in judged for column, row in one.best_forms().items()}
    places = {"engine": 0, "peer": 1, "version": 2}
    return sorted(roles, key=lambda column: places[roles[column]])


def _describe_line(
    one: JudgedCase, name: str, columns: Sequence[str], versions: Sequence[str], *, has_lead: bool
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


def _write_lead(lead: judged_case.Lead | None) -> LeadCell:
    if lead is None:
        return LeadCell()
    return LeadCell(units.times(lead.speed.value), units.interval(lead.speed), lead.verdict)


def fold_label(label: str) -> str:
    """A label that may be broken after ``torch_`` and ``onnx``, before ``@`` and before ``[``."""
    for sign in ("@", "["):
        label = label.replace(sign, f"{BREAK}{sign}", 1)
    return label.replace("torch_", f"torch_{BREAK}", 1).replace("onnxruntime", f"onnx{BREAK}runtime", 1)
