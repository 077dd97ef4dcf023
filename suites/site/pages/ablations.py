"""What each switch of a program is worth: left out of the complete program, and alone in an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suites.harness.judge.ablation import ADD_ONE_IN, ALL, LEAVE_ONE_OUT, PAIR
from suites.harness.present import ablation_table, units
from suites.harness.record import lookup
from suites.harness.record.schema import AblationRecord, Samples
from suites.harness.record.store import Run
from suites.site.entries import describe_machines
from suites.site.page import Page, Site
from suites.site.places import describe_run

NAME = "ablations"


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    chosen = _choose_parts(site)
    cases = [_describe_case(one) for one in chosen]
    machines = {one.main.run.environment.machine for one in chosen}
    yield Page(
        name=NAME,
        title="What each switch is worth",
        template="ablations.html",
        data={"cases": cases, "machines": describe_machines(site, machines)},
        tables={"switches": [line for one in chosen for line in _list_numbers(one)]},
        texts={"empty": not cases, "legend": ablation_table.LEGEND},
    )


@dataclass(frozen=True)
class _Part:
    """Switches, or pairs of them, of a case as one run measured them."""

    run: Run
    records: Sequence[AblationRecord]

    def describe_run(self) -> dict[str, Any]:
        """Which run it was, and what its noise was."""
        return {**describe_run(self.run), "floor": ablation_table.describe_floor(self.records)}


@dataclass(frozen=True)
class _Ablation:
    """A case and a program on one machine.

    Attributes:
        singles: the newest run of switches, left out or alone; None if there is none.
        pairs: the newest run of pairs; None if there is none. A run of both is in both places.
    """

    singles: _Part | None
    pairs: _Part | None

    @property
    def main(self) -> _Part:
        """What says which case and program it is."""
        found = self.singles or self.pairs
        assert found is not None  # noqa: S101  # `_choose_parts` makes it from one of them
        return found


def _choose_parts(site: Site) -> list[_Ablation]:
    """The newest switches and the newest pairs of every case and program on every machine, newest first.

    A case with both comes before others: the first one is what the page opens with.
    """
    found: dict[tuple[str, str, str], dict[bool, _Part]] = {}
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        if lookup.is_ablation(run):
            for case, records in ablation_table.group_cases(run.of(AblationRecord)).items():
                key = run.environment.machine, case, ablation_table.get_whole(records)
                for is_pair in {record.mode == PAIR for record in records}:
                    chosen = [record for record in records if (record.mode == PAIR) == is_pair]
                    found.setdefault(key, {})[is_pair] = _Part(run, chosen)
    made = [_Ablation(parts.get(False), parts.get(True)) for parts in found.values()]
    made.sort(key=lambda one: one.main.run.name, reverse=True)
    return sorted(made, key=_count_missing)


def _count_missing(one: _Ablation) -> int:
    """How much of an ablation a case lacks: switches left out, switches alone, and pairs."""
    modes = {record.mode for part in (one.singles, one.pairs) if part is not None for record in part.records}
    return len({LEAVE_ONE_OUT, ADD_ONE_IN, PAIR} - modes)


def _describe_case(one: _Ablation) -> dict[str, Any]:
    run, records = one.main.run, one.main.records
    singles = one.singles.records if one.singles is not None else ()
    case = records[0].case
    return {
        "case": case,
        "model": case.partition("/")[0],
        "program": ablation_table.get_whole(records),
        **_describe_program(run, ablation_table.get_whole(records)),
        **one.main.describe_run(),
        "switches": [
            {
                "switch": row.switch,
                "kind": row.kind,
                "everything": row.switch == ALL,
                "left_out": _describe_effect(row.left_out),
                "alone": _describe_effect(row.alone),
                "counts": ablation_table.write_counts(row),
            }
            for row in ablation_table.list_switches(singles)
        ],
        "pairs": [
            {"switches": row.switch.split(" + "), **(_describe_effect(row.left_out) or {})}
            for row in (ablation_table.list_pairs(one.pairs.records) if one.pairs is not None else ())
        ],
        "pairs_run": one.pairs.describe_run() if one.pairs is not None and one.pairs.run is not run else None,
        "unreached": ablation_table.list_unreached(singles),
        "inapplicable": ablation_table.list_inapplicable(singles),
        "notes": ablation_table.write_notes(records, run.of(Samples)),
    }


def _describe_program(run: Run, label: str) -> dict[str, Any]:
    """Backend of the program that is taken apart, and whose switches they are."""
    known = run.environment.backends.get(label)
    backend = known.name if known is not None else label.partition("[")[0]
    return {"backend": backend, "peer": run.environment.role(label) == "peer"}


def _describe_effect(record: AblationRecord | None) -> dict[str, Any] | None:
    """One effect: above 1 the program with the switch is faster."""
    if record is None:
        return None
    speed = record.speed if record.reached else None
    return {
        "verdict": ablation_table.write_verdict(record),
        "text": ablation_table.write_effect(record),
        "value": None if speed is None else speed.value,
        "low": None if speed is None else speed.low,
        "high": None if speed is None else speed.high,
        "short": "" if speed is None else units.times(speed.value),
    }


def _list_numbers(one: _Ablation) -> Iterator[Mapping[str, Any]]:
    for part in filter(None, (one.singles, one.pairs)):
        for record in part.records:
            speed = record.speed
            yield {
                "machine": part.run.environment.machine,
                "run": part.run.name,
                "case": record.case,
                "program": ablation_table.get_whole(one.main.records),
                "switch": record.switch,
                "kind": record.switch_kind,
                "mode": record.mode,
                "reached": record.reached,
                "status": record.status,
                "verdict": record.verdict,
                "speed": None if speed is None else speed.value,
                "speed_low": None if speed is None else speed.low,
                "speed_high": None if speed is None else speed.high,
                "p": record.p,
            }
