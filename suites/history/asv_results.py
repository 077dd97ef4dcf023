"""A history as result files of asv: seconds and counts of every case over commits. Pure, but for `write_results`.

asv compares numbers that were measured at different times, and a machine drifts meanwhile. So the seconds here are the
median latency of the first commit divided by the paired speeds of the commits since, and the samples are the same by
each generation of processes: consecutive commits differ by what was measured in turns, and by nothing else.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from suites.harness.files import write_text_file
from suites.harness.judge.steps import Track
from suites.harness.record.commits import CommitRecord
from suites.harness.record.schema import Environment

LATENCY = "history.Latency.track_latency"
COUNTS = {
    "history.Program.track_launches": ("launches", "launches"),
    "history.Program.track_nodes": ("nodes", "nodes"),
    "history.Program.track_arena_bytes": ("arena_bytes", "bytes"),
    "history.Program.track_weight_bytes": ("weight_bytes", "bytes"),
    "history.Program.track_executed_flops": ("executed_flops", "operations"),
}
"""Name of a benchmark -> column, unit."""
VERSION = "1"
"""Of the benchmarks: results of two versions do not compare."""
BENCHMARKS_VERSION, MACHINE_VERSION, RESULT_VERSION = 2, 1, 2
"""Versions of asv's own files, of asv 0.6."""
COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples",
)  # fmt: skip
_ENVIRONMENT = "history"
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Value:
    """The number of a commit in one case.

    Attributes:
        result: the number.
        interval: its 99% interval, which asv weighs steps by; of the first commit the range of its samples; of a count
            the number itself.
        samples: seconds, one for each generation of processes; empty for counts.
    """

    result: float
    interval: tuple[float, float]
    samples: tuple[float, ...] = ()


def write_results(tracks: Sequence[Track], environment: Environment, folder: Path) -> Path:
    """Write a history into a folder of asv's results; what the folder holds of other benchmarks stays.

    Args:
        tracks: the cases.
        environment: the first line of the run.
        folder: the folder of results, such as ``results/asv``.

    Returns:
        The folder of the machine.
    """
    machine = _describe_machine(environment)
    place = folder / machine["machine"]
    _write_json(folder / "benchmarks.json", _merge_benchmarks(folder / "benchmarks.json", tracks))
    _write_json(place / "machine.json", {**machine, "version": MACHINE_VERSION})
    seconds = {track.case: list(_list_seconds(track)) for track in tracks}
    for index, commit in enumerate(point.commit for track in tracks[:1] for point in track.points):
        values = {LATENCY: {case: of_case[index] for case, of_case in seconds.items()}}
        for name, (column, _) in COUNTS.items():
            counts = {track.case: track.points[index].counts.get(column) for track in tracks}
            values[name] = {case: None if n is None else Value(n, (n, n)) for case, n in counts.items()}
        path = place / f"{commit.commit[:8]}-{_ENVIRONMENT}.json"
        _write_json(path, _describe_result(commit, values, machine, environment))
    return place


def _describe_machine(environment: Environment) -> dict[str, str]:
    """What asv knows of a machine. Nothing of it changes from run to run, because asv keeps a graph for each set."""
    return {
        "machine": environment.machine,
        "os": "Linux",
        "arch": environment.architecture,
        "cpu": environment.cpu,
        "num_cpu": str(environment.cores or ""),
        "ram": f"{environment.memory_bytes >> 30} GiB",
    }


def _merge_benchmarks(path: Path, tracks: Sequence[Track]) -> dict[str, Any]:
    """The list of benchmarks with those of a history; asv itself only lists those that it finds in its own folder."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    params = [[repr(track.case) for track in tracks]]
    units = {LATENCY: "seconds", **{name: unit for name, (_, unit) in COUNTS.items()}}
    for name, unit in units.items():
        known[name] = {
            "name": name,
            "code": "",
            "type": "track",
            "unit": unit,
            "version": VERSION,
            "timeout": _TIMEOUT_S,
            "param_names": ["case"],
            "params": params,
        }
    return {**known, "version": BENCHMARKS_VERSION}


def _describe_result(
    commit: CommitRecord,
    values: Mapping[str, Mapping[str, Value | None]],
    machine: Mapping[str, str],
    environment: Environment,
) -> dict[str, Any]:
    python = ".".join(environment.python.split(".")[:2])
    return {
        "commit_hash": commit.commit,
        "env_name": _ENVIRONMENT,
        "date": _get_milliseconds(commit),
        "params": {**machine, "python": python},
        "python": python,
        "requirements": {},
        "env_vars": {},
        "result_columns": list(COLUMNS),
        "results": {name: _describe_values(of_cases, commit) for name, of_cases in values.items()},
        "durations": {},
        "version": RESULT_VERSION,
    }


def _list_seconds(track: Track) -> Iterator[Value | None]:
    """Of each commit, on the scale of the first one; None if nothing was timed, or after a commit without a program."""
    before: Value | None = None
    for point in track.points:
        if track.seconds is None or point.since_first is None:
            value = None
        elif point.wide is not None and before is not None:
            base = before.result
            interval = (base / point.wide.high, base / point.wide.low)
            seconds = track.seconds / point.since_first.value
            value = Value(seconds, interval, tuple(base / speed for speed in point.generations))
        elif point.note == "first":
            value = Value(track.seconds, (min(track.samples), max(track.samples)), track.samples)
        else:  # the same code as the commit before
            value = before
        yield value
        before = value if point.note != "failed" else before


def _describe_values(of_cases: Mapping[str, Value | None], commit: CommitRecord) -> list[Any]:
    """A benchmark of a commit, in the order of `COLUMNS`."""

    def column(get: Callable[[Value], Any]) -> list[Any]:
        return [None if value is None else get(value) for value in of_cases.values()]

    def quartile(value: Value, index: int) -> float:
        several = value.samples if len(value.samples) > 1 else (value.result, value.result)
        return statistics.quantiles(several, n=4, method="inclusive")[index]

    row = {
        "result": column(lambda value: value.result),
        "params": [[repr(case) for case in of_cases]],
        "version": VERSION,
        "started_at": _get_milliseconds(commit),
        "duration": None,
        "stats_ci_99_a": column(lambda value: value.interval[0]),
        "stats_ci_99_b": column(lambda value: value.interval[1]),
        "stats_q_25": column(lambda value: quartile(value, 0)),
        "stats_q_75": column(lambda value: quartile(value, 2)),
        "stats_number": column(lambda _: 1),
        "stats_repeat": column(lambda value: max(1, len(value.samples))),
        "samples": column(lambda value: list(value.samples) or None),
    }
    return [row[name] for name in COLUMNS]


def _get_milliseconds(commit: CommitRecord) -> int:
    """When it was committed, as asv writes it."""
    return int(datetime.fromisoformat(commit.date).timestamp() * 1000)


def _write_json(path: Path, value: Any) -> None:
    write_text_file(path, json.dumps(value, allow_nan=False))
