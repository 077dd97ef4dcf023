"""A history of commits for a terminal and for JSON: a table for each case, then its steps in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.judge.steps import Point, Track
from suites.harness.present import units
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.present.terminal import choose_box, choose_widths, print_table
from suites.harness.record.commits import CommitRecord
from suites.harness.record.reasons import clean_line, find_cause

INDENT = 2
"""Characters in front of a table."""
SHORT = 12
"""Characters of a commit's name."""
LEGEND_OF_TIMES = (
    "speed: latency of the commit before over that of the commit, from rounds in which both took turns, with its 95% "
    "interval. since first: the product of these speeds. Above 1x is faster. A step is a difference beyond noise, at "
    "95% over all rows of the run; unclear is within noise."
)
LEGEND_OF_COUNTS = "counts: exact values of the program, all of the first commit, and then those that changed."
LEGEND = f"{LEGEND_OF_TIMES} {LEGEND_OF_COUNTS}"


def print_history(console: Console, tracks: Sequence[Track]) -> None:
    """Print every case, and below it what changed."""
    for track in tracks:
        console.print()
        title = f"{track.case}: {describe_start(track)}"
        write_paragraph(console, title, style="bold")
        print_table(console, _make_table(console, track), indent=INDENT)
        for text in describe_steps(track):
            write_paragraph(console, text, indent=2)
    console.print()
    is_timed = any(point.speed is not None for track in tracks for point in track.points)
    write_paragraph(console, LEGEND if is_timed else LEGEND_OF_COUNTS, style="dim")


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


def _make_table(console: Console, track: Track) -> Table:
    """Cells wrap between words. If that is not enough, they do not wrap, so that each row is printed as a block."""
    is_timed = any(point.speed is not None for point in track.points)
    names = ("commit", "date", *(("speed", "", "since first") if is_timed else ()), "counts", "subject")
    rows = []
    for point in track.points:
        commit = point.commit
        times = (_write_speed(point), _write_word(point), _write_since_first(point)) if is_timed else ()
        rows.append(
            (commit.commit[:SHORT], commit.date[:10], *times, describe_counts(point), clean_line(commit.subject))
        )
    found = choose_widths([names, *rows], console.width - INDENT)
    widths: Sequence[int | None] = [None] * len(names) if found is None else found
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in zip(names, widths, strict=True):
        table.add_column(name, overflow="fold", width=width, no_wrap=found is None)
    for point, cells in zip(track.points, rows, strict=True):
        table.add_row(*map(Text, cells), style="bold" if point.is_step else None)
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
