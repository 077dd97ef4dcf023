"""The arguments of a command, kept beside its unfinished record, so that `--resume RUN` needs no others."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from suites.harness.errors import UsageError
from suites.harness.files import write_text_file
from suites.harness.record import machine, store


class Arguments(BaseModel):
    """What the file beside a record holds.

    Attributes:
        command: such as ``run``.
        argv: its arguments.
        cwd: the folder in which they were given.
        files: path of each file of the user that the measurements depend on -> its digest.
        before: names of the complete records that the command had made before this one.
    """

    command: str
    argv: list[str]
    cwd: str
    files: dict[str, str]
    before: list[str]


@dataclass
class Invocation:
    """The records that one command makes, one after the other. Only the last one has a file of arguments.

    Attributes:
        command, argv: as of `Arguments`; without a command no file is written.
        earlier: records to continue, in the order in which the command made them; all but the last are complete.
    """

    command: str = ""
    argv: Sequence[str] = ()
    earlier: list[store.Run] = field(default_factory=list)
    _files: dict[str, str] = field(default_factory=dict, init=False)
    _made: list[Path] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._made = [run.path for run in self.earlier]

    @property
    def last(self) -> Path | None:
        """The last record that the command has made."""
        return self._made[-1] if self._made else None

    def note_files(self, paths: Iterable[Path]) -> None:
        """Take the digests of the user's files as they are before anything is measured."""
        self._files = {str(path.resolve()): _digest_file(path) for path in paths}

    def take_earlier(self) -> store.Run | None:
        """The record that the next plan continues; None if it begins one."""
        return self.earlier.pop(0) if self.earlier else None

    def keep(self, record: Path) -> None:
        """Write the arguments beside a record that begins. Those beside the record before it are removed.

        Raises:
            UsageError: the file cannot be written.
        """
        self.end()
        if self.command:
            before = [path.name for path in self._made]
            kept = Arguments(
                command=self.command, argv=list(self.argv), cwd=str(Path.cwd()), files=self._files, before=before
            )
            write_text_file(name_file(record), f"{kept.model_dump_json(indent=2)}\n")
        self._made.append(record)

    def end(self) -> None:
        """Remove the arguments: the records are complete."""
        if self.last is not None:
            name_file(self.last).unlink(missing_ok=True)


def name_file(record: Path) -> Path:
    """Where the arguments of a record are kept."""
    return record.with_suffix(".args.json")


def read_arguments(run: store.Run, command: str) -> Arguments:
    """The arguments of a run that `command` can resume here and now.

    Raises:
        UsageError: the run is complete, its arguments are missing, or the command, the folder, the machine, the commit
            or a file differs.
    """
    arguments = _read_file(run.path)
    if arguments is None:
        reason = "its arguments are missing" if run.unfinished else "it is complete"
        raise UsageError(f"{run.name} cannot be resumed: {reason}")
    began = run.environment
    for what, then, now in (
        ("command", arguments.command, command),
        ("folder", arguments.cwd, arguments.cwd if Path(arguments.cwd).is_dir() else "missing"),
        ("machine", began.machine, machine.slug()),
        ("commit", _describe_revision(began.model_dump()), _describe_revision(machine.revision())),
        *((f"file {path}", digest, _digest_file(Path(path))) for path, digest in arguments.files.items()),
    ):
        if then != now:
            raise UsageError(f"{run.name} cannot be resumed: the {what} differs: {then} when it began, {now} now")
    return arguments


def describe_resuming(record: Path) -> str | None:
    """The command that resumes a run; None if its arguments are not kept."""
    arguments = _read_file(record)
    if arguments is None:
        return None
    is_usual = record.resolve().is_relative_to(store.choose_results_folder().resolve())
    return shlex.join(["enginebench", arguments.command, "--resume", record.stem if is_usual else str(record)])


def _read_file(record: Path) -> Arguments | None:
    try:
        return Arguments.model_validate_json(name_file(record).read_bytes())
    except (OSError, ValidationError):
        return None


def _describe_revision(revision: dict[str, Any]) -> str:
    """The commit, and what tells uncommitted changes apart."""
    changes = f" with changes {revision['difference']}" if revision["dirty"] else ""
    return f"{revision['commit'] or 'none'}{changes}"


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"
