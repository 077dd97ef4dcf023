"""The files of records: where runs lie, how a line is written so that nothing is lost, how it is read back.

What a line holds is declared in `schema`, and described in docs/results-format.md. Knows no statistics.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from suites.harness.errors import UsageError, describe_os_error
from suites.harness.invalid import describe
from suites.harness.record import machine, migrations
from suites.harness.record.kinds import KINDS
from suites.harness.record.schema import SCHEMA, Environment, Record, Summary, names

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Run:
    """A file of records as it was read.

    Attributes:
        path: the file.
        environment: its first line.
        records: its other complete lines, in order.
        cut: True where the last line was incomplete (the run was killed while writing); it is not in `records`.
        problems: a line for each damaged line that was left out; only `read` with ``lenient`` leaves lines out.
    """

    path: Path
    environment: Environment
    records: list[Record]
    cut: bool = False
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File name without its ending: what `enginebench list runs` shows."""
        return self.path.stem

    @property
    def started(self) -> datetime | None:
        """When the run began."""
        return read_start(self.name)

    def of(self, kind: type[R]) -> list[R]:
        """Records of one kind, in order."""
        return [record for record in self.records if isinstance(record, kind)]

    def summaries(self) -> list[Summary]:
        """The last summary of each case and backend: a resumed run may have written one again."""
        return list({(line.case, line.backend): line for line in self.of(Summary)}.values())

    @property
    def unfinished(self) -> str:
        """How much of an unfinished run is stored, such as ``3 of 15 rows``; empty for a complete run."""
        planned = sum(map(len, self.environment.plan.cases.values()))
        done = len(self.summaries())
        if done >= planned and not self.cut:
            return ""
        return f"{done} of {planned} rows{', and a line that was cut off' if self.cut else ''}"


def read_start(name: str) -> datetime | None:
    """When the run of that name began; None for a file that somebody renamed."""
    try:
        return datetime.strptime(name.partition("_")[0].partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def results_folder(given: Path | None) -> Path:
    """Where runs are written and looked for. Not created here.

    Returns:
        `given`; without it, ``results/`` of the checkout if the current folder is inside of it, otherwise ``results/``
        of the current folder: what somebody measures elsewhere is no result of the checkout.

    Raises:
        UsageError: the folder, or what exists of the path to it, is a file.
    """
    folder = given if given is not None else choose_results_folder()
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if existing.exists() and not existing.is_dir():
        raise UsageError(f"{existing}: is a file; expected the folder of results")
    return folder


def choose_results_folder() -> Path:
    """The results folder of a command without ``--results``."""
    root, here = machine.checkout(), Path.cwd()
    return (root if root is not None and here.resolve().is_relative_to(root) else here) / "results"


def runs_folder(results: Path, machine_name: str | None = None) -> Path:
    """The folder of one machine's runs; this machine's by default."""
    return results / "runs" / (machine_name or machine.slug())


def run_files(results: Path) -> list[Path]:
    """Run files of this machine, oldest first."""
    return sorted(runs_folder(results).glob("*.jsonl"))


def all_run_files(results: Path) -> list[Path]:
    """Run files of every machine, by machine and then oldest first."""
    return sorted((results / "runs").glob("*/*.jsonl"))


class Writer:
    """Appends lines to one file; each is on the disk when `append` returns.

    The file is locked until the writer is closed or its process ends, however that ends.

    Args:
        path: the file.
        resume: True to append to an existing file (a cut last line is dropped); False to create it, exclusively.

    Raises:
        UsageError: the file cannot be written, or another process is writing to it.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                self._file = opened.enter_context(path.open("ab" if resume else "xb", buffering=0))
                _lock(self._file.fileno())
                if resume:
                    _drop_cut_line(path)
                opened.pop_all()
        except BlockingIOError:
            raise UsageError(f"{path.name}: this run is still in progress") from None
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {describe_os_error(error)}") from None

    def append(self, *records: Record) -> None:
        """Write `records` in one go, then fsync.

        Raises:
            UsageError: the write fails, for example because the disk is full. The file is as long as it was before; a
                new one without a line is deleted.
        """
        lines = (json.dumps({"schema": SCHEMA, **to_json(record)}, allow_nan=False) + "\n" for record in records)
        before = os.fstat(self._file.fileno()).st_size
        try:
            left = memoryview("".join(lines).encode())
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), before)
            if not before:
                self.path.unlink(missing_ok=True)
            kept = "all that was measured before is stored, and --resume goes on from there"
            kept = kept if before else "nothing had been measured before"
            raise UsageError(f"{self.path}: cannot be written: {describe_os_error(error)}; {kept}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def new_path(results: Path, suite: str, environment: Environment) -> Path:
    """``runs/<machine>/<utc>_<commit>[-dirty]_<suite>.jsonl``, not existing yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    commit = (environment.commit or "nocommit") + ("-dirty" if environment.dirty else "")
    for attempt in itertools.count(1):
        again = f"-{attempt}" if attempt > 1 else ""
        path = runs_folder(results) / f"{stamp}{again}_{commit}_{suite}.jsonl"
        if not path.exists():
            break
    return path


def read(path: Path, *, lenient: bool = False) -> Run:
    """The run in the file at `path`, in the form of today's schema.

    Args:
        path: the file.
        lenient: leave out damaged lines, and name them in `Run.problems`, instead of refusing the file.

    Raises:
        UsageError: no such file; a line but the last is damaged, or of a schema that this version does not know; with
            `lenient` only of the first line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {describe_os_error(error)}") from None
    complete, _, rest = raw.rpartition(b"\n")
    lines = [(number, text) for number, text in enumerate(complete.split(b"\n"), 1) if text.strip()] or [(1, b"")]
    problems: list[str] = []
    records: list[Record] = []
    for number, text in lines:
        try:
            record = _decode(text)
            if isinstance(record, Environment) == bool(records):
                raise ValueError("expected one line of kind `environment`, with which the record begins")
            records.append(record)
        except ValueError as error:
            problem = f"{path}:{number}: {error}"
            if not lenient or not records:
                raise UsageError(problem) from None
            problems.append(problem)
    return Run(path, cast("Environment", records[0]), records[1:], bool(rest.strip()), tuple(problems))


def read_if_possible(path: Path) -> Run | None:
    """As `read`, for a run that the user did not name. Returns None and prints a note if the file cannot be read."""
    try:
        return read(path)
    except UsageError as error:
        sys.stderr.write(f"left out: {error}. Delete the file if you do not need it\n")
        return None


def _decode(text: bytes) -> Record:
    """The record that a line spells; ValueError says what is wrong with it."""
    try:
        line = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"not a JSON line: {error}") from None
    try:
        if line["schema"] > SCHEMA:
            raise ValueError(f"schema {line['schema']} is newer than {SCHEMA}, the newest that this version reads")
        upgraded = migrations.upgrade(line, SCHEMA)
        del upgraded["schema"]
        return KINDS[upgraded["kind"]].model_validate(upgraded)
    except ValidationError as error:
        raise ValueError(_explained(error)) from None
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"not a line of a record: {type(error).__name__}: {error}") from None


def _explained(error: ValidationError) -> str:
    """The first problem, and how many there are."""
    found = error.errors(include_url=False)
    place = ".".join(str(part) for part in found[0]["loc"])
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{place}: {describe(found[0])}{more}"


def to_json(record: Record) -> dict[str, Any]:
    """The record as JSON can hold it; numbers that are not finite become their names as text."""
    values = plain(record.model_dump())
    aliases = {name: field.serialization_alias or name for name, field in type(record).model_fields.items()}
    return {aliases[name]: values[name] for name in names(type(record))}


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. It has no NaN and no Inf: they become their names as text, not null."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def _lock(descriptor: int) -> None:
    """Lock an open record for this process; BlockingIOError if another process is writing to it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks: some network file systems have none
        return


def _drop_cut_line(path: Path) -> None:
    """Cut the file after its last complete line, so that the next one starts on a line of its own."""
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    if end < len(raw):
        os.truncate(path, end)
