"""The engine over commits: times of consecutive commits, steps, and counts, also those of all other stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from suites.harness.judge.steps import COUNTS, Point, Track
from suites.harness.present import history as present
from suites.harness.present import units
from suites.harness.record import lookup
from suites.harness.record.commits import CommitRecord
from suites.harness.record.reasons import clean_line
from suites.harness.record.schema import Speed
from suites.harness.record.store import Run
from suites.site.entries import describe_machines
from suites.site.page import Page, Site
from suites.site.places import describe_run

NAME = "history"
COLUMNS = tuple(name for name in COUNTS if name not in ("fallback_nodes", "slow_launches", "graph_breaks"))
"""Counts that are drawn."""


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    followed = [(run, track) for run, tracks in site.histories for track in tracks]
    stored = list(_list_stored(site))
    yield Page(
        name=NAME,
        title="The engine over commits",
        template="history.html",
        data={
            "tracks": [_describe_track(run, track) for run, track in followed],
            "stored": stored,
            "columns": list(COLUMNS),
            "machines": describe_machines(site, site.machines),
        },
        tables={
            "commits": [line for run, track in followed for line in _list_numbers(run, track)],
            "counts": [{**line, **line.pop("counts")} for line in map(dict, stored)],
        },
        texts={
            "empty": not followed,
            "unfinished": list(_list_unfinished(site)),
            "no_counts": not stored,
            "legend": present.LEGEND if any(_is_timed(track) for _, track in followed) else present.LEGEND_OF_COUNTS,
        },
    )


def _is_timed(track: Track) -> bool:
    return any(point.speed is not None for point in track.points)


def _list_unfinished(site: Site) -> Iterator[dict[str, str]]:
    """Histories that were interrupted, the newest first: their commits are written at the end."""
    for run in sorted(site.collection.runs, key=lambda run: run.name, reverse=True):
        if lookup.is_history(run) and not run.of(CommitRecord):
            yield {"name": run.name, "state": run.unfinished or "without its commits"}


def _describe_track(run: Run, track: Track) -> dict[str, Any]:
    return {
        **describe_run(run),
        "case": track.case,
        "start": present.describe_start(track),
        "timed": _is_timed(track),
        "steps": list(present.describe_steps(track)),
        "points": [_describe_point(point) for point in track.points],
    }


def _describe_point(point: Point) -> dict[str, Any]:
    commit = point.commit
    return {
        "commit": commit.commit[: present.SHORT],
        "date": commit.date[:10],
        "subject": clean_line(commit.subject),
        "skipped": commit.skipped,
        "verdict": point.verdict,
        "note": point.note,
        "speed": _describe_speed(point.speed),
        "since_first": _describe_speed(point.since_first),
        "changes": present.describe_changes(point),
        "counted": present.describe_counts(point),
        "reason": None if point.reason is None else clean_line(point.reason),
        "counts": {name: point.counts[name] for name in COLUMNS if name in point.counts},
    }


def _describe_speed(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {**vars(speed), "text": units.times(speed.value), "interval": units.interval(speed)}


def _list_numbers(run: Run, track: Track) -> Iterator[Mapping[str, Any]]:
    for point in track.points:
        found = {"speed": point.speed, "since_first": point.since_first}
        yield {
            "machine": run.environment.machine,
            "run": run.name,
            "case": track.case,
            "commit": point.commit.commit,
            "date": point.commit.date,
            "subject": point.commit.subject,
            "skipped": point.commit.skipped,
            "verdict": point.verdict,
            "note": point.note,
            **{
                f"{name}{suffix}": None if one is None else getattr(one, field)
                for name, one in found.items()
                for field, suffix in (("value", ""), ("low", "_low"), ("high", "_high"))
            },
            **{name: point.counts.get(name) for name in COLUMNS},
        }


def _list_stored(site: Site) -> Iterator[dict[str, Any]]:
    """Counts of the engine's usual program in every stored run of a committed state, the oldest run first."""
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        if not lookup.is_measurement(run) or run.environment.commit is None or run.environment.dirty:
            continue
        for row in run.summaries():
            counts = {name: getattr(row, name) for name in COLUMNS}
            if row.backend == "engine" and row.status == "ok" and any(value is not None for value in counts.values()):
                yield {
                    "machine": run.environment.machine,
                    "run": run.name,
                    "date": f"{run.started:%Y-%m-%d %H:%M}" if run.started is not None else "",
                    "commit": run.environment.commit,
                    "case": row.case,
                    "counts": counts,
                }
