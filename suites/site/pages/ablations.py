"""What each switch of a program is worth: left out of the complete program, and alone in an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from suites.harness.judge.ablation import ALL
from suites.harness.present import ablation_table, units
from suites.harness.record import lookup
from suites.harness.record.schema import AblationRecord
from suites.harness.record.store import Run
from suites.site.entries import describe_machines
from suites.site.page import Page, Site

NAME = "ablations"


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    chosen = _choose_runs(site)
    cases = [_describe_case(run, records) for run, records in chosen]
    yield Page(
        name=NAME,
        title="What each switch is worth",
        template="ablations.html",
        data={"cases": cases, "machines": describe_machines(site, {run.environment.machine for run, _ in chosen})},
        tables={"switches": [line for run, records in chosen for line in _list_numbers(run, records)]},
        texts={"empty": not cases, "legend": ablation_table.LEGEND, "pair_legend": ablation_table.PAIR_LEGEND},
    )


def _choose_runs(site: Site) -> list[tuple[Run, list[AblationRecord]]]:
    """The newest ablation of every case and program on every machine, newest first."""
    found: dict[tuple[str, str, str], tuple[Run, list[AblationRecord]]] = {}
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        if lookup.is_ablation(run):
            for case, records in ablation_table.group_cases(run.of(AblationRecord)).items():
                found[run.environment.machine, case, ablation_table.get_whole(records)] = run, records
    return sorted(found.values(), key=lambda one: one[0].name, reverse=True)


def _describe_case(run: Run, records: Sequence[AblationRecord]) -> dict[str, Any]:
    case = records[0].case
    unreached = ablation_table.list_unreached(records)
    return {
        "machine": run.environment.machine,
        "case": case,
        "model": case.partition("/")[0],
        "program": ablation_table.get_whole(records),
        **_describe_program(run, ablation_table.get_whole(records)),
        "run": run.name,
        "date": f"{run.started:%Y-%m-%d}" if run.started is not None else "",
        "commit": run.environment.commit,
        "floor": ablation_table.describe_floor(records),
        "switches": [
            {
                "switch": row.switch,
                "kind": row.kind,
                "everything": row.switch == ALL,
                "left_out": _describe_effect(row.left_out),
                "alone": _describe_effect(row.alone),
                "counts": ablation_table.write_counts(row),
            }
            for row in ablation_table.list_switches(records)
        ],
        "pairs": [
            {"switches": row.switch.split(" + "), **(_describe_effect(row.left_out) or {})}
            for row in ablation_table.list_pairs(records)
        ],
        "unreached": unreached,
        "inapplicable": ablation_table.list_inapplicable(records),
        "notes": ablation_table.write_notes(records),
    }


def _describe_program(run: Run, label: str) -> dict[str, Any]:
    """Backend of the program that is taken apart, and whose switches they are."""
    known = run.environment.backends.get(label)
    backend = known.name if known is not None else label.partition("[")[0]
    return {"backend": backend, "competitor": run.environment.role(label) == "peer"}


def _describe_effect(record: AblationRecord | None) -> dict[str, Any] | None:
    """One effect: above 1 the switch pays."""
    if record is None:
        return None
    ratio = record.ratio if record.reached else None
    return {
        "word": ablation_table.write_word(record),
        "text": ablation_table.write_effect(record),
        "value": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "short": "" if ratio is None else units.times(ratio.value),
    }


def _list_numbers(run: Run, records: Sequence[AblationRecord]) -> Iterator[Mapping[str, Any]]:
    for record in records:
        ratio = record.ratio
        yield {
            "machine": run.environment.machine,
            "run": run.name,
            "case": record.case,
            "program": ablation_table.get_whole(records),
            "switch": record.switch,
            "kind": record.switch_kind,
            "mode": record.mode,
            "reached": record.reached,
            "status": record.status,
            "verdict": record.verdict,
            "ratio": None if ratio is None else ratio.value,
            "low": None if ratio is None else ratio.low,
            "high": None if ratio is None else ratio.high,
            "p": record.p,
        }
