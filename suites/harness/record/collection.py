"""All runs of a results folder, and what of it could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suites.harness.errors import UsageError
from suites.harness.record import store, superseded
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
    runs: list[Run] = []
    problems: list[str] = []
    seen: dict[tuple[str, str], Path] = {}
    if not files and any(path.glob("*.jsonl")):
        problems.append(f"{path}: no runs; expected a results folder, with files in {path}/runs/MACHINE")
    for file in files:
        try:
            run = store.read(file, lenient=True)
        except UsageError as error:
            problems.append(str(error))
            continue
        problems += run.problems
        known = run.environment
        key = known.machine, run.name
        if key in seen:
            problems.append(f"{file}: left out, because {seen[key]} is the same run")
            continue
        seen[key] = file
        if file.parent.name != known.machine and len(files) > 1:
            problems.append(f"{file}: its machine is {known.machine}, which its folder does not name")
        if run.cut:
            problems.append(f"{file}: its last line is cut, so it lacks a row")
        runs.append(run)
    return Collection(tuple(runs), superseded.known(path), tuple(problems))
