"""A capsule for each row of a run that is wrong or failed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from suites.harness.present import further
from suites.harness.record.schema import Summary

FAILS = {"wrong": "wrong", "failed": "error"}
"""Status of a row -> how its model fails."""


def write(folder: Path, rows: Sequence[Summary]) -> Iterator[str]:
    """Minify what failed, each in a process of its own, into `folder`. Yields a line for each such row."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if row.status not in FAILS:
            continue
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', f'{row.case}-{row.backend}')}.capsule"
        asked = ["--fails", FAILS[row.status], "--threads", str(row.threads), "--capsule", str(path)]
        command = [sys.executable, "-m", "suites.cli", "minify", *further.list_arguments(row), *asked]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        *_, said = ["no reason given", *ended.stderr.strip().splitlines()]
        yield f"{row.backend}, {row.case}: {f'no capsule: {said}' if ended.returncode else path}"
