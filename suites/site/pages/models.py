"""A page for each model: times, memory, preparation, growth with the size of the input, and the roof."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge import growth
from suites.harness.judge.growth import Growth
from suites.harness.judge.judged_case import get_latency
from suites.harness.present import units
from suites.harness.present.details import QUANTITIES
from suites.harness.present.names import describe_case
from suites.harness.present.overview import get_time
from suites.harness.present.ranked import shorten_labels
from suites.harness.record.schema import Summary
from suites.site import profiles
from suites.site.entries import Entry, describe_machines, describe_row, list_entries, list_numbers
from suites.site.page import Page, Site
from suites.site.places import Place, SamplesOfRuns

PREPARATION = ("import_s", "export_s", "compile_s", "first_call_s")


def describe(site: Site) -> Iterator[Page]:
    """One page for each model."""
    samples = SamplesOfRuns()
    for model, name in site.models.items():
        places = {(place.machine, place.judged.case): place for place in site.places if place.row.model == model}
        entries = [
            entry | _describe_rows(places[entry["machine"], entry["case"]], samples)
            for entry in list_entries(site, model)
        ]
        sweeps = list(_describe_growth(list(places.values())))
        stored = [one for one in site.profiles if one.model == PurePath(model).name]
        machines = {machine for machine, _ in places} | {one.machine for one in stored}
        yield Page(
            name=name,
            title=model,
            template="model.html",
            data={
                "entries": entries,
                "machines": describe_machines(site, machines),
                "growth": sweeps,
                "roofs": _describe_roofs(site, machines),
                "profiles": [profiles.describe_profile(one) for one in stored],
            },
            tables={
                "times": [line for place in places.values() for line in list_numbers(place)],
                "quantities": [line for place in places.values() for line in _list_quantities(place)],
                "growth": [
                    {key: sweep[key] for key in sweep if key != "points"} | point
                    for sweep in sweeps
                    for point in sweep["points"]
                ],
                "nodes": [line for one in stored for line in profiles.list_numbers(one)],
            },
            texts={"has_profile": bool(stored), "model": model, "legend": profiles.LEGEND},
        )


def _describe_rows(place: Place, samples: SamplesOfRuns) -> Entry:
    """All rows of a case, fastest first, with every quantity as text."""
    one = place.judged
    rows = [*one.timed, *(row for row in one.rows.values() if row.latency is None)]
    shown = {
        heading: [write(row) for row in rows]
        for heading, write in QUANTITIES.items()
        if any(write(row) != units.UNKNOWN for row in rows)
    }
    short = shorten_labels([row.backend for row in rows])
    return {
        "title": describe_case(place.row),
        "roof": PRECISIONS[place.row.precision].roof if place.row.precision in PRECISIONS else place.row.precision,
        "rows": [
            describe_row(place, row)
            | {"short": short[row.backend], "quartiles": _write_quartiles(place, row, samples)}
            | _describe_numbers(row)
            for row in rows
        ],
        "quantities": shown,
    }


def _write_quartiles(place: Place, row: Summary, samples: SamplesOfRuns) -> str:
    """Between which times the middle half of all samples lies, a call or a token; empty without samples."""
    lines = samples.find(place.run, place.judged.case, row.backend)
    seconds = [one for line in lines if line.status == "ok" for turn in line.seconds for one in turn]
    if row.latency is None or len(seconds) < 2:
        return ""
    scale = get_time(row) / get_latency(row)
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return f"{units.seconds(low * scale)} to {units.seconds(high * scale)}"


def _describe_numbers(row: Summary) -> Entry:
    """What charts draw of a row: seconds, bytes, operations; None is unknown."""
    return {
        "p90": None if row.latency is None else row.latency.p90 / get_latency(row),
        "min": None if row.latency is None else row.latency.min / get_latency(row),
        "preparation": {name.removesuffix("_s"): getattr(row, name) for name in PREPARATION},
        "peak_bytes": row.run_peak_rss_bytes or row.peak_rss_bytes,
        "weight_bytes": row.weight_bytes,
        "intensity": row.flops / row.bytes if row.flops and row.bytes else None,
        "rate": row.flops / row.latency.p50 if row.flops and row.latency else None,
        "roof_share": row.roof_share,
    }


def _list_quantities(place: Place) -> Iterator[Mapping[str, Any]]:
    names = ("peak_rss_bytes", "run_peak_rss_bytes", "weight_bytes", "arena_bytes", "flops", "bytes", "roof_share")
    for label, row in place.judged.rows.items():
        about = {"machine": place.machine, "run": place.run.name, "case": place.judged.case, "backend": label}
        yield about | {name: getattr(row, name) for name in (*PREPARATION, *names)}


def _describe_growth(places: list[Place]) -> Iterator[dict[str, Any]]:
    """Every sweep of a size in one run, with the fitted exponent: times of two runs do not compare."""
    runs: dict[tuple[str, str], list[Summary]] = {}
    for place in places:
        runs.setdefault((place.machine, place.run.name), []).extend(place.judged.rows.values())
    for (machine, run), rows in runs.items():
        for one in growth.fitted(rows):
            row = one.row
            yield {
                "machine": machine,
                "run": run,
                "axis": one.axis,
                "fixed": describe_case(row, without=one.axis),
                "threads": row.threads,
                "precision": row.precision,
                "backend": row.backend,
                "exponent": one.exponent,
                "low": one.low,
                "high": one.high,
                "known": one.is_known,
                "points": _find_points(one, rows),
            }


def _find_points(one: Growth, rows: list[Summary]) -> list[dict[str, float]]:
    """Size and seconds of every row of a sweep."""

    def is_member(row: Summary) -> bool:
        first = one.row
        same = [
            (row.backend, row.options, row.threads, row.precision, row.device, row.io)
            == (first.backend, first.options, first.threads, first.precision, first.device, first.io),
            {**row.shape, one.axis: 0} == {**first.shape, one.axis: 0},
            row.latency is not None,
        ]
        return all(same)

    found = [{"size": row.shape[one.axis], "seconds": get_latency(row)} for row in rows if is_member(row)]
    return sorted(found, key=lambda point: point["size"])


def _describe_roofs(site: Site, machines: set[str]) -> list[dict[str, Any]]:
    """What the machines can do at most: operations and bytes of memory a second, for each number of threads.

    Rates that are not believed are among them, and marked.
    """
    return [
        {
            "machine": name,
            "name": roof.name,
            "threads": roof.threads,
            "rate": roof.rate,
            "believed": bool(roof.believed),
        }
        for name, known in site.machines.items()
        if name in machines and known.roofs is not None
        for roof in known.roofs.rows
        if roof.rate is not None and (roof.name == "memory" or roof.thread_bytes is None)
    ]
