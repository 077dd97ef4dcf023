"""All runs of a results folder, and what of it could not be read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.harness.errors import UsageError, describe_os_error
from suites.harness.record import store, superseded
from suites.harness.record.schema import Samples
from suites.harness.record.store import Run


@dataclass(frozen=True)
class Collection:
    """What a results folder holds.

    Attributes:
        runs: by machine, and then oldest first.
        faults: of the harness, with the runs that have them.
        problems: a sentence for each file or line that was left out or is doubtful.
    """

    runs: tuple[Run, ...]
    faults: superseded.Faults
    problems: tuple[str, ...]


def collect(results: str | Path) -> Collection:
    """Read every run. Files that are no records, damaged lines and second copies of a run are left out and named.

    Args:
        results: a results folder, or the file of one run.

    Raises:
        UsageError: no such file or folder, or `superseded.toml` is damaged.
    """
    path = Path(results)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    files = [path] if path.is_file() else store.all_run_files(path)
    problems = [] if path.is_file() else [*_find_strays(path, files)]
    runs: list[Run] = []
    for file in files:
        try:
            runs.append(store.read(file, lenient=True))
        except UsageError as error:
            problems.append(str(error))
    copies = _find_copies(runs)
    for run in runs:
        problems += run.problems
        if run.path in copies:
            problems.append(f"{run.path}: left out, because {copies[run.path]} is the same run")
            continue
        if run.cut:
            problems.append(f"{run.path}: its last line is cut, so it lacks a row")
    return Collection(tuple(run for run in runs if run.path not in copies), superseded.known(path), tuple(problems))


def _find_strays(path: Path, files: Sequence[Path]) -> Iterator[str]:
    """A sentence for each record that lies where no run lies, and for each folder that cannot be read."""
    found, errors = {*path.glob("*.jsonl")}, list[OSError]()
    for folder, _, names in os.walk(path / "runs", onerror=errors.append):
        found |= {Path(folder) / name for name in names if name.endswith(".jsonl")}
    for stray in sorted(found - {*files}):
        yield f"{stray}: no run; expected {path}/runs/MACHINE/NAME.jsonl"
    for error in errors:
        if not isinstance(error, FileNotFoundError):
            yield f"{error.filename}: {describe_os_error(error)}"


def _find_copies(runs: Sequence[Run]) -> dict[Path, Path]:
    """Second copy -> the copy that is kept: the most complete one, then the one in the folder of its machine."""
    kept: dict[str, Path] = {}
    copies: dict[Path, Path] = {}
    for run in sorted(runs, key=lambda run: (-len(run.records), run.path.parent.name != run.environment.machine)):
        first = kept.setdefault(_identify(run), run.path)
        if first != run.path:
            copies[run.path] = first
    return copies


def _identify(run: Run) -> str:
    """What only copies of a run share: its first lines, which have times, because a copy may have another name."""
    if run.of(Samples):
        return run.environment.model_dump_json() + run.records[0].model_dump_json()
    return f"{run.environment.machine} {run.name}"
