"""Where the time of a test run goes: a plugin that writes build/test-times.json, and the command that prints it.

Every run of the tests writes the file, in seconds of wall time in the processes that ran tests: `tests` with their own
fixtures, `fixtures` without those that they ask for, `imports` of test modules in all processes; `files` and `subjects`
(folders) add up tests and imports.

    python -m tests.times [--rows N] [--table NAME]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "build" / "test-times.json"
TABLES = ("subjects", "files", "tests", "fixtures", "imports")


def find_subject(file: str) -> str:
    """The folder below tests/ that FILE is in, or FILE itself where it is in none."""
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] == "tests" and len(parts) > 2 else file


class Clock:
    """Adds up the seconds of one process; the one that starts the others adds theirs and writes the file."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.begun = time.time()
        self.tests: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, float] = defaultdict(float)
        self.imports: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            where = f"{fixturedef.baseid}::{fixturedef.argname}" if fixturedef.baseid else fixturedef.argname
            self.fixtures[where] += time.perf_counter() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            if isinstance(collector, pytest.Module):
                self.imports[collector.nodeid] += time.perf_counter() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for table, seconds in getattr(node, "workeroutput", {}).get("times", {}).items():
            for name, value in seconds.items():
                getattr(self, table)[name] += value

    def pytest_sessionfinish(self) -> None:
        workeroutput = getattr(self.config, "workeroutput", None)
        if workeroutput is not None:  # a process of xdist: its reports are sent as they come, these at the end
            workeroutput["times"] = {"fixtures": dict(self.fixtures), "imports": dict(self.imports)}

    def pytest_unconfigure(self) -> None:
        if self.tests and not hasattr(self.config, "workeroutput"):
            write(self, time.time() - self.begun)


def write(clock: Clock, wall: float) -> None:
    """Write what CLOCK has added up in WALL seconds."""
    files: dict[str, float] = defaultdict(float)
    subjects: dict[str, float] = defaultdict(float)
    for seconds in (clock.tests, clock.imports):
        for name, value in seconds.items():
            file = name.partition("::")[0]
            files[file] += value
            subjects[find_subject(file)] += value
    tables = {
        "subjects": subjects,
        "files": files,
        "tests": clock.tests,
        "fixtures": clock.fixtures,
        "imports": clock.imports,
    }
    PATH.parent.mkdir(exist_ok=True)
    record = {"wall": wall} | {name: sort_by_seconds(tables[name]) for name in TABLES}
    PATH.write_text(json.dumps(record, indent=0) + "\n")


def sort_by_seconds(seconds: dict[str, float]) -> dict[str, float]:
    """The same, the slowest first, in milliseconds' precision."""
    return {name: round(value, 3) for name, value in sorted(seconds.items(), key=lambda item: -item[1])}


def main() -> None:
    """Print the tables of the last run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.times", description="where the time of the last test run went"
    )
    parser.add_argument("--rows", type=int, default=25, help="rows of each table (default: 25)")
    parser.add_argument("--table", choices=TABLES, action="append", help="this table alone; may be repeated")
    given = parser.parse_args()
    if not PATH.exists():
        sys.exit(f"{PATH.relative_to(ROOT)} does not exist: run the tests first")
    record = json.loads(PATH.read_text())
    print(f"wall time of the run: {record['wall']:.0f} s")
    for table in given.table or TABLES:
        rows = record[table]
        print(f"\n{table}: {sum(rows.values()):.0f} s in {len(rows)}")
        for name, value in list(rows.items())[: given.rows]:
            print(f"{value:9.1f}  {name}")


if __name__ == "__main__":
    main()
