"""All runs of a results folder, and what of it could not be read."""

from __future__ import annotations

import errno
import hashlib
import itertools
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
    found: dict[Path, list[str]] = {file: [] for file in files}
    runs: list[Run] = []
    for file in files:
        if not _is_unicode(file):
            found[file].append(f"{_write_path(file)}: left out, because its name is not Unicode")
            continue
        try:
            run = store.read(file, lenient=True)
        except UsageError as error:
            found[file].append(str(error))
            continue
        found[file] += run.problems
        runs.append(run)
    copies = _find_copies(runs)
    lengths = {run.path: len(run.records) for run in runs}
    for run in runs:
        if run.path in copies:
            kept = copies[run.path]
            extra = lengths[kept] - len(run.records)
            more = f" with {extra} more line{'s' if extra > 1 else ''}" if extra else ""
            found[run.path].append(f"{run.path}: left out, because {kept} is the same run{more}")
            continue
        if path.is_dir() and run.path.parent.name != run.environment.machine:
            found[run.path].append(
                f"{run.path}: its machine is {run.environment.machine}, which its folder does not name"
            )
        found[run.path] += _find_empty(run)
        if run.cut:
            found[run.path].append(f"{run.path}: its last line is cut, so it lacks a row")
    problems = [*_find_strays(path, files), *itertools.chain.from_iterable(found.values())]
    return Collection(tuple(run for run in runs if run.path not in copies), superseded.known(path), tuple(problems))


def _find_empty(run: Run) -> Iterator[str]:
    """A sentence for each line that says it is ok and has no times: it looks complete, and is in no comparison."""
    for line in run.of(Samples):
        if line.status == "ok" and not any(line.seconds):
            where = f"{line.case}, {line.backend}, generation {line.generation}"
            yield f"{run.path}: samples of {where} have no seconds, so they are in no comparison"
    for row in run.summaries():
        if row.status == "ok" and row.latency is None:
            yield f"{run.path}: the row of {row.case}, {row.backend} has no latency, so it is in no comparison"


def _find_strays(path: Path, files: Sequence[Path]) -> Iterator[str]:
    """A sentence for each file that lies where no run lies, and for each folder that cannot be read."""
    if path.is_file():
        return
    if not files and any(path.glob("*.jsonl")):
        yield f"{path}: no runs; expected a results folder, with files in {path}/runs/MACHINE"
    strays = sorted(path.glob("*.jsonl")) if files else []
    errors: list[OSError] = []
    for folder, _, names in os.walk(path / "runs", onerror=errors.append):
        strays += [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
    for stray in strays:
        if stray.suffix != ".jsonl" or stray.parent.parent != path / "runs":
            yield f"{_write_path(stray)}: no run; expected {path}/runs/MACHINE/NAME.jsonl"
    for error in errors:
        if error.errno != errno.ENOENT:
            yield f"{error.filename}: {describe_os_error(error)}"


def _find_copies(runs: Sequence[Run]) -> dict[Path, Path]:
    """Second copy -> the copy that is kept: the most complete one, and of those the one in the folder of its machine.

    Two files are copies if they have the same machine and name of the run, or begin with the same bytes: the first line
    has facts of the moment, and the line behind it has times.
    """
    names: dict[tuple[str, str], Path] = {}
    beginnings: dict[bytes, Path] = {}
    copies: dict[Path, Path] = {}
    for run in sorted(runs, key=_rank_copy):
        known = names.setdefault((run.environment.machine, run.name), run.path)
        if known == run.path and run.of(Samples):
            known = beginnings.setdefault(_read_beginning(run.path), run.path)
        if known != run.path:
            copies[run.path] = known
    return copies


def _read_beginning(path: Path) -> bytes:
    """A digest of the first two lines."""
    with path.open("rb") as file:
        return hashlib.sha256(file.readline() + file.readline()).digest()


def _rank_copy(run: Run) -> tuple[int, bool, bool, str]:
    """The lower, the more complete is this copy, and then the likelier it is where the harness wrote it."""
    return -len(run.records), run.path.parent.name != run.environment.machine, run.started is None, run.name


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _write_path(path: Path) -> str:
    """A path as text that every file can hold."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
