"""Time, stored bytes and accuracy of each precision, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from suites.accuracy import tables
from suites.accuracy.tradeoff import Entry, Tradeoff, list_tradeoffs
from suites.harness.record.schema import AccuracyRecord, Samples
from suites.harness.record.store import Run
from suites.site.entries import describe_machines
from suites.site.page import Page, Site
from suites.site.places import describe_run

NAME = "precision"
MEASURES = ("KL", "cosine")
"""Distances from float32, the better known first: the chart shows the first one that all rows have."""


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    chosen = _choose(site)
    groups = [_describe(run, found) for run, found in chosen]
    yield Page(
        name=NAME,
        title="What lower precision buys",
        template="precision.html",
        data={"groups": groups, "machines": describe_machines(site)},
        tables={"precisions": [line for run, found in chosen for line in _list_numbers(run, found)]},
        texts={"empty": not groups, "legend": tables.TRADEOFF_LEGEND},
    )


def _choose(site: Site) -> list[tuple[Run, Tradeoff]]:
    """The newest trade-off of every model, sizes and threads on every machine, newest first."""
    found: dict[tuple[str, str], tuple[Run, Tradeoff]] = {}
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        lines = run.of(AccuracyRecord)
        if not lines:
            continue
        for one in list_tradeoffs(run.summaries(), run.of(Samples), lines, run.environment):
            before = found.get((run.environment.machine, one.title))
            if before is None or len(one.entries) >= len(before[1].entries):
                found[run.environment.machine, one.title] = run, one
    return sorted(found.values(), key=lambda one: one[0].name, reverse=True)


def _describe(run: Run, found: Tradeoff) -> dict[str, Any]:
    first = found.entries[0].summary
    return {
        **describe_run(run),
        "title": found.title,
        "model": first.model,
        "threads": first.threads,
        "base": found.base,
        "measure": _choose_measure(found),
        "entries": [_describe_entry(entry, found) for entry in found.entries],
        "table": tables.tabulate_tradeoff(found, is_short=True),
        "notes": tables.describe_tradeoff(found, is_short=True),
    }


def _choose_measure(found: Tradeoff) -> str:
    """The distance from float32 that the chart shows."""
    scored = [one.accuracy.scores for one in found.entries if one.accuracy is not None and one.accuracy.scores]
    return next((name for name in MEASURES if scored and all(name in scores for scores in scored)), MEASURES[-1])


def _describe_entry(entry: Entry, found: Tradeoff) -> dict[str, Any]:
    measure, speed = _choose_measure(found), entry.speed
    score = entry.accuracy.scores.get(measure) if entry.accuracy is not None else None
    distance = None if score is None else 1 - score.value if measure == "cosine" else score.value
    return {
        "backend": entry.summary.backend,
        "precision": entry.summary.precision,
        "speed": 1.0 if speed is None else speed.value,
        "low": None if speed is None else speed.low,
        "high": None if speed is None else speed.high,
        "distance": distance,
        "bytes": entry.weight_bytes,
        "front": entry.is_front,
    }


def _list_numbers(run: Run, found: Tradeoff) -> Iterator[Mapping[str, Any]]:
    for entry in found.entries:
        row = _describe_entry(entry, found)
        scores = entry.accuracy.scores if entry.accuracy is not None else {}
        yield {
            "machine": run.environment.machine,
            "run": run.name,
            "model": found.title,
            "backend": row["backend"],
            "precision": row["precision"],
            "speed": row["speed"],
            "speed_low": row["low"],
            "speed_high": row["high"],
            "weight_bytes": row["bytes"],
            "measure": _choose_measure(found),
            "distance": row["distance"],
            "scores": {name: [one.value, one.low, one.high] for name, one in scores.items()},
        }
