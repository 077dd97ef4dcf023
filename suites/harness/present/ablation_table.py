"""What an ablation says: a report, and CSV for spreadsheets. Reads records only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from suites.harness.judge.ablation import ADD_ONE_IN, ALL, DELTAS, LEAVE_ONE_OUT, PAIR
from suites.harness.judge.summary import share_disturbed
from suites.harness.present import overview, units
from suites.harness.present.report import GUIDE, Paragraph, Part
from suites.harness.present.table import Cell, Column, Table
from suites.harness.present.terminal import VERDICT_STYLES, choose_reach, draw_interval
from suites.harness.record.schema import AblationRecord, Environment, Samples

PLOT = 21
"""Characters of the axis of intervals."""
LEGEND = (
    "left out: speed with everything on against the same without the switch, with its 95% interval. A row option=value "
    "is the speed with that value against the usual one. Above 1 the switch, or the value, is faster"
)
ALONE_LEGEND = "alone: the same with everything else off"
PAIR_LEGEND = (
    "interaction: what a switch earns when the other one is on over what it earns alone; above 1 they help each other, "
    "below 1 they are redundant"
)
_COUNTS = {
    "nodes": "nodes",
    "launches": "launches",
    "arena": "arena_bytes",
    "operations": "flops",
    "bytes": "bytes",
}
_NOT_APPLICABLE = "not applicable"
_UNUSED = "can use it"
"""Part of every reason that says that no part of the program can use the switch, such as a kernel variant."""


@dataclass(frozen=True)
class Row:
    """A switch, its kind, and its records in both modes; None for a mode that was not run."""

    switch: str
    kind: str
    left_out: AblationRecord | None
    alone: AblationRecord | None


def group_cases(records: Iterable[AblationRecord]) -> dict[str, list[AblationRecord]]:
    """Case -> its records."""
    found: dict[str, list[AblationRecord]] = {}
    for record in records:
        found.setdefault(record.case, []).append(record)
    return found


def list_switches(records: Sequence[AblationRecord]) -> list[Row]:
    """Rows of one case: everything first, then the largest effects; switches that change nothing are left out."""
    modes: dict[tuple[str, str], dict[str, AblationRecord]] = {}
    for record in records:
        if record.mode != PAIR:
            modes.setdefault((record.switch_kind, record.switch), {})[record.mode] = record
    shown = {key: found for key, found in modes.items() if any(map(_is_shown, found.values()))}
    order = sorted(shown, key=lambda key: (key[1] != ALL, -_weigh(shown[key].get(LEAVE_ONE_OUT))))
    return [Row(key[1], key[0], shown[key].get(LEAVE_ONE_OUT), shown[key].get(ADD_ONE_IN)) for key in order]


def list_pairs(records: Sequence[AblationRecord]) -> list[Row]:
    """Rows of one case, a pair of switches each; the record stands in `left_out`."""
    found = [record for record in records if record.mode == PAIR and _is_shown(record)]
    return [Row(record.switch.replace("+", " + "), "pair", record, None) for record in found]


def list_unreached(records: Sequence[AblationRecord]) -> list[str]:
    """Names of switches that leave the program as it is, in every mode."""
    reached = {record.switch for record in records if record.reached or record.status != "ok"}
    names = (record.switch for record in records if record.mode != PAIR and record.switch not in reached)
    return list(dict.fromkeys(names))


MOST_VARIANTS = 12
"""Kernel variants that a note lists by name. An ablation of all kernels has variants of all operators of the engine."""


def _shorten_variants(names: Sequence[str], records: Sequence[AblationRecord]) -> list[str]:
    """`names`, with a number in place of the kernel variants among them if there are many."""
    variants = {record.switch for record in records if record.switch_kind == "kernel"} & set(names)
    if len(variants) <= MOST_VARIANTS:
        return [*names]
    others = [name for name in names if name not in variants]
    return [*others, f"{len(variants)} kernel variants, which enginebench show RUN --csv lists"]


def list_inapplicable(records: Sequence[AblationRecord]) -> list[str]:
    """Names of switches that are not applicable to the program."""
    return list(dict.fromkeys(record.switch for record in records if record.status == _NOT_APPLICABLE))


def describe_floor(records: Sequence[AblationRecord]) -> str:
    """The A/A floor of the case as a factor."""
    floor = next((record.floor for record in records if record.floor is not None), None)
    return "A/A floor not measured" if floor is None else f"A/A floor {units.times(1 + floor)}"


def get_whole(records: Sequence[AblationRecord]) -> str:
    """Label of the program that is taken apart."""
    first = next((one for one in records if one.mode in (LEAVE_ONE_OUT, PAIR)), records[0])
    return first.without if first.names_value else first.with_


def write_notes(records: Sequence[AblationRecord], samples: Iterable[Samples] = ()) -> list[str]:
    """What stands below the table of a case.

    Args:
        records: of the case.
        samples: of the same run; without them no note says which programs use slow kernels, and whether other
                processes disturbed them.
    """
    of_case = [line for line in samples if line.case == records[0].case]
    return [
        *_notes(records),
        *_explain_disturbed(of_case, get_whole(records)),
        *_explain_slow(records[0].case, of_case),
    ]


def _explain_disturbed(samples: Sequence[Samples], whole: str) -> Iterator[str]:
    """Whether others used the processors while the programs of a case were timed.

    Programs are timed in groups, and those of a group share their rounds. `whole` is timed in each group.
    """
    if share := share_disturbed([line for line in samples if line.backend == whole]):
        yield (
            f"d disturbed: other processes used the processors, also when rounds were repeated ({share:.0%} of rounds)."
        )


def _explain_slow(case: str, samples: Iterable[Samples]) -> Iterator[str]:
    """Which of the timed programs of a case use slow kernels."""
    programs: dict[tuple[int, int | None], list[str]] = {}
    for line in samples:
        count = line.facts.slow_launches
        if line.case == case and count and "#" not in line.backend:
            same = programs.setdefault((count, line.facts.launches), [])
            if line.backend not in same:
                same.append(line.backend)
    texts = [
        f"{count} of {'?' if launches is None else launches} launches of {', '.join(labels)}"
        for (count, launches), labels in programs.items()
    ]
    if texts:
        yield f"Slow kernels run {'; '.join(texts)}."


def _notes(records: Sequence[AblationRecord]) -> Iterator[str]:
    everything = next((one for one in records if one.switch == ALL and one.mode == LEAVE_ONE_OUT), None)
    if everything is not None:
        alone = {one.switch_kind for one in records if one.mode == ADD_ONE_IN}
        kept = sorted({one.switch_kind for one in records if one.mode == LEAVE_ONE_OUT} - alone - {"all"})
        kinds = f"kind{'s' if len(kept) > 1 else ''} {', '.join(kept)}"
        stays = f"; it changes no switch of the {kinds}" if kept and (alone or "pass" not in kept) else ""
        yield f"{ALL}: {everything.without} against {everything.with_}{stays}."
    unreached = _shorten_variants(list_unreached(records), records)
    if unreached:
        yield f"Not reached (the same program, so not timed): {', '.join(unreached)}."
    inapplicable = [record for record in records if record.status == _NOT_APPLICABLE]
    unused = list_inapplicable([record for record in inapplicable if _is_unused(record)])
    if unused:
        yield f"Not applicable (no part of the program can use it): {', '.join(unused)}."
    refused = [record for record in inapplicable if not _is_unused(record)]
    failed = [record for record in records if record.status not in ("ok", _NOT_APPLICABLE)]
    yield from dict.fromkeys(f"{record.switch}: {record.status}: {record.reason}" for record in (*refused, *failed))


def _is_unused(record: AblationRecord) -> bool:
    """Whether the reason is the usual one, which the note of all such switches gives once."""
    return record.reason is None or _UNUSED in record.reason


def write_effect(record: AblationRecord | None) -> str:
    """``1.23x [1.10, 1.36]``; empty if the switch was not timed."""
    return "" if record is None or record.speed is None or not record.reached else units.factor(record.speed)


def write_verdict(record: AblationRecord | None) -> str:
    """The verdict, or why there is none."""
    if record is None:
        return ""
    if record.status != "ok":
        return str(record.status)
    if not record.reached:
        return "not reached"
    return str(record.verdict)


def write_counts(row: Row) -> dict[str, str]:
    """Heading -> the count with the switch changed, and in brackets how much more that is: ``128 (+12)``."""
    record = row.left_out or row.alone
    deltas = record.deltas if record is not None else {}
    if record is not None and record.names_value:
        deltas = {name: pair[::-1] for name, pair in deltas.items()}
    counts = {name: _write_delta(deltas[column], name) for name, column in _COUNTS.items() if column in deltas}
    if record is not None and record.detectable is not None and record.verdict == "unclear":
        counts["detects"] = units.percent(record.detectable)
    return counts


def make_report(
    records: Sequence[AblationRecord],
    environment: Environment,
    started: datetime | None,
    samples: Sequence[Samples] = (),
) -> list[Part]:
    """The tables of all cases: switches left out, switches alone, pairs, and the counts with each switch changed."""
    parts: list[Part] = [Paragraph(overview.describe_place(environment, started))]
    for case, own in group_cases(records).items():
        parts.append(Paragraph(f"{case}  {get_whole(own)} taken apart; {describe_floor(own)}", "bold"))
        switches = list_switches(own)
        tables = [
            ("left out", [(row, row.left_out) for row in switches]),
            ("alone", [(row, row.alone) for row in switches]),
            ("interaction", [(row, row.left_out) for row in list_pairs(own)]),
        ]
        parts += [_make_table(heading, rows) for heading, rows in tables if any(record for _, record in rows)]
        parts += _count(switches)
        parts += [Paragraph(note, is_note=True) for note in write_notes(own, samples)]
    legend = Paragraph(write_legend(records), "dim", guide=f"{GUIDE}#ablations")
    return [*parts, legend, overview.describe_versions(environment)]


def write_legend(records: Sequence[AblationRecord]) -> str:
    """How to read the tables, in one or two lines."""
    modes = {record.mode for record in records}
    known = ((LEGEND, modes - {PAIR}), (ALONE_LEGEND, ADD_ONE_IN in modes), (PAIR_LEGEND, PAIR in modes))
    return "; ".join(text for text, is_there in known if is_there)


def _make_table(heading: str, rows: Sequence[tuple[Row, AblationRecord | None]]) -> Table:
    """The effect of each switch, with its interval on an axis."""
    table = Table(
        [
            Column("switch", is_code=True),
            Column("kind", level=1),
            Column(heading),
            Column(),
            Column(level=2, is_drawing=True),
        ]
    )
    reach = choose_reach([record.speed for _, record in rows if record is not None and record.speed is not None])
    for row, record in rows:
        if record is not None:
            verdict = write_verdict(record)
            drawn = draw_interval(record.speed, reach, PLOT) if record.speed is not None and record.reached else ""
            styled = Cell(verdict, VERDICT_STYLES.get(verdict, ""))
            table.add(row.switch, row.kind, write_effect(record), styled, drawn)
    return table


def _count(rows: Sequence[Row]) -> Iterator[Table]:
    """Counts with each switch changed; nothing if none differs."""
    counts = {row.switch: found for row in rows if (found := write_counts(row))}
    names = [name for name in (*_COUNTS, "detects") if any(name in one for one in counts.values())]
    if names:
        columns = [Column("changed", is_code=True), *(Column(name, "right") for name in names)]
        table = Table(columns, details="Counts with each switch changed")
        for switch, found in counts.items():
            table.add(switch, *(found.get(name, "").replace(" (", "\n(") for name in names))
        yield table


def write_csv(lines: Sequence[AblationRecord]) -> str:
    """One line a switch, mode and case, with plain numbers."""
    fixed = ("case", "switch", "switch_kind", "mode", "reached", "status", "reason", "with", "without")
    counts = [f"{name}_{side}" for name in DELTAS for side in ("with", "without")]
    names = (*fixed, "speed", "speed_low", "speed_high", "p", "verdict", "detectable", "floor", *counts)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        values = line.model_dump(by_alias=True)
        row = {name: values[name] for name in (*fixed, "p", "verdict", "detectable", "floor")}
        if line.speed is not None:
            row |= {"speed": line.speed.value, "speed_low": line.speed.low, "speed_high": line.speed.high}
        for name, (on, off) in line.deltas.items():
            row |= {f"{name}_with": on, f"{name}_without": off}
        writer.writerow(row)
    return stream.getvalue()


def _is_shown(record: AblationRecord) -> bool:
    return bool(record.reached) or record.status not in ("ok", _NOT_APPLICABLE)


def _weigh(record: AblationRecord | None) -> float:
    return 0.0 if record is None or record.speed is None else record.speed.value


def _write_delta(pair: Sequence[Any], name: str) -> str:
    on, off = pair
    write = units.size if name in ("arena", "bytes") else units.count
    return f"{write(off)} ({'+' if off > on else '-'}{write(abs(off - on))})"
