"""A history of commits as a report and for JSON: a table for each case, then its steps in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from suites.harness.judge.steps import Point, Track
from suites.harness.present import units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Column, Table
from suites.harness.record.commits import CommitRecord
from suites.harness.record.reasons import clean_line, find_cause

SHORT = 12
"""Characters of a commit's name."""
LEGEND_OF_TIMES = (
    "speed: latency of the commit before over that of the commit, from rounds in which both took turns, with its 95% "
    "interval. since first: the product of these speeds. Above 1x is faster. A step is a difference beyond noise, at "
    "95% over all rows of the run; unclear is within noise."
)
LEGEND_OF_COUNTS = "counts: exact values of the program, all of the first commit, and then those that changed."
LEGEND = f"{LEGEND_OF_TIMES} {LEGEND_OF_COUNTS}"


def describe_history(tracks: Sequence[Track]) -> Iterator[Part]:
    """Every case, and below it what changed."""
    for track in tracks:
        yield Paragraph(f"{track.case}: {describe_start(track)}", "bold")
        yield _make_table(track)
        yield from (Paragraph(text, is_note=True) for text in describe_steps(track))
    is_timed = any(point.speed is not None for track in tracks for point in track.points)
    yield Paragraph(LEGEND if is_timed else LEGEND_OF_COUNTS, "dim")


def describe_start(track: Track) -> str:
    """The time at the first commit, and the floor."""
    if track.seconds is None:
        return "counts alone"
    floor = "" if track.floor is None else f", A/A floor {units.times(1 + track.floor)}"
    return f"{units.seconds(track.seconds)} at the first commit{floor}"


def describe_steps(track: Track) -> Iterator[str]:
    """A sentence for each step of time, and for each change of counts."""
    for point in track.points:
        where = name_commit(point.commit)
        if point.is_step and point.speed is not None:
            yield f"{point.verdict} at {where}: {units.times(point.speed.value)} {units.interval(point.speed)}"
        if point.changes:
            yield f"counts changed at {where}: {describe_changes(point)}"


def name_commit(commit: CommitRecord) -> str:
    """The commit, and how many commits before it may be meant instead."""
    name = f"{commit.commit[:SHORT]} ({clean_line(commit.subject)})"
    if not commit.skipped or commit.previous is None:
        return name
    return f"{name} or one of the {commit.skipped} commits since {commit.previous[:SHORT]}"


def describe_changes(point: Point) -> str:
    """The counts that changed, before and after."""
    return ", ".join(f"{name} {one:,} to {two:,}" for name, (one, two) in point.changes.items())


def describe_counts(point: Point) -> str:
    """Why there are none, all counts of the first commit, or those of a later one that changed."""
    if point.reason is not None:
        return find_cause(point.reason) or clean_line(point.reason)
    if point.note == "first":
        return ", ".join(f"{name} {value:,}" for name, value in point.counts.items())
    return describe_changes(point)


def _make_table(track: Track) -> Table:
    is_timed = any(point.speed is not None for point in track.points)
    times = [Column("speed"), Column(), Column("since first")] if is_timed else []
    table = Table(
        [Column("commit"), Column("date"), *times, Column("counts", wraps=True), Column("subject", wraps=True)]
    )
    for point in track.points:
        commit = point.commit
        cells = [commit.commit[:SHORT], commit.date[:10]]
        cells += [_write_speed(point), _write_word(point), _write_since_first(point)] if is_timed else []
        style = "bold" if point.is_step else ""
        table.add(*cells, describe_counts(point), clean_line(commit.subject), style=style)
    return table


def _write_speed(point: Point) -> str:
    return "-" if point.speed is None else f"{units.times(point.speed.value)} {units.interval(point.speed)}"


def _write_word(point: Point) -> str:
    return point.verdict or ("" if point.note == "first" else point.note)


def _write_since_first(point: Point) -> str:
    return "-" if point.since_first is None else units.times(point.since_first.value)


def to_dict(tracks: Sequence[Track]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [
        {
            "case": track.case,
            "seconds_of_first": track.seconds,
            "floor": track.floor,
            "commits": [_describe_point(point) for point in track.points],
        }
        for track in tracks
    ]


def _describe_point(point: Point) -> dict[str, Any]:
    commit = point.commit
    return {
        "commit": commit.commit,
        "previous": commit.previous,
        "skipped": commit.skipped,
        "date": commit.date,
        "subject": commit.subject,
        "verdict": point.verdict,
        "note": point.note,
        "reason": point.reason,
        "speed": None if point.speed is None else vars(point.speed),
        "since_first": None if point.since_first is None else vars(point.since_first),
        "changes": {name: list(pair) for name, pair in point.changes.items()},
        "counts": dict(point.counts),
    }
