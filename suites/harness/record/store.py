"""The record: where runs lie, how a line is written so that nothing is lost, how it is read back. Knows no statistics.

The format is described in docs/results-format.md.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from suites.harness.errors import UsageError
from suites.harness.record import machine

SCHEMA = 1
"""Version of the lines written here. Readers take this one and refuse later ones by name."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A file of records as it was read.

    Attributes:
        path: the file.
        lines: its complete lines, in order.
        cut: True where the last line was incomplete (the run was killed while writing); it is not in `lines`.
    """

    path: Path
    lines: list[Line]
    cut: bool

    @property
    def name(self) -> str:
        """File name without its ending: what `enginebench list runs` shows."""
        return self.path.stem

    @property
    def environment(self) -> Line:
        """The first line."""
        return self.lines[0] if self.lines else {}

    def of(self, kind: str) -> list[Line]:
        """Lines of one kind, in order."""
        return [line for line in self.lines if line["kind"] == kind]


def results_folder(given: Path | None) -> Path:
    """`given`, else ``results/`` of the checkout, else a per-user folder. Not created here."""
    if given is not None:
        return given
    root = machine.checkout()
    if root is not None:
        return root / "results"
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "enginebench" / "results"


def runs_folder(results: Path, machine_name: str | None = None) -> Path:
    """The folder of one machine's runs; this machine's by default."""
    return results / "runs" / (machine_name or machine.slug())


def run_files(results: Path, machine_name: str | None = None) -> list[Path]:
    """Run files of one machine, oldest first."""
    return sorted(runs_folder(results, machine_name).glob("*.jsonl"))


def all_run_files(results: Path) -> list[Path]:
    """Run files of every machine, by machine and then oldest first."""
    return sorted((results / "runs").glob("*/*.jsonl"))


class Writer:
    """Appends lines to one file; each is on the disk when `append` returns.

    Args:
        path: the file.
        resume: True to append to an existing file (a cut last line is dropped); False to create it, exclusively.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if resume:
                _drop_cut_line(path)
            self._file = path.open("ab" if resume else "xb", buffering=0)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Write `lines` in one go, then fsync.

        Raises:
            UsageError: they cannot be written, the disk being full; what the file held before is what it holds then.
        """
        text = "".join(_encode(line) for line in lines)
        before = os.fstat(self._file.fileno()).st_size
        try:
            left = memoryview(text.encode())
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), before)
            kept = "all that was measured before is stored, and --resume goes on from there"
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}; {kept}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def new_path(results: Path, suite: str, environment: Mapping[str, Any]) -> Path:
    """``runs/<machine>/<utc>_<commit>[-dirty]_<suite>.jsonl``, not existing yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    commit = (environment.get("commit") or "nocommit") + ("-dirty" if environment.get("dirty") else "")
    folder = runs_folder(results)
    for attempt in range(1, 1000):
        again = f"-{attempt}" if attempt > 1 else ""
        path = folder / f"{stamp}{again}_{commit}_{suite}.jsonl"
        if not path.exists():
            return path
    raise UsageError(f"{folder}: too many runs in one second")


def read(path: Path) -> Run:
    """The run in the file at `path`.

    Raises:
        UsageError: no such file; a line other than the last is damaged; a schema that this version does not know.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    complete, _, rest = raw.rpartition(b"\n")
    lines = list(_decoded(path, complete.split(b"\n") if complete else []))
    return Run(path, lines, cut=bool(rest.strip()))


def find_run(results: Path, name: str) -> Run:
    """A run by path, by its name, or by ``last`` (the newest of this machine)."""
    given = Path(name)
    if given.suffix == ".jsonl" and given.is_file():
        return read(given)
    if name == "last":
        files = run_files(results)
        if not files:
            raise UsageError(f"no run of this machine under {results}")
        return read(files[-1])
    for path in all_run_files(results):
        if name in (path.stem, path.name):
            return read(path)
    from engine.suggest import unknown

    raise UsageError(unknown("run", name, ["last", *(path.stem for path in all_run_files(results))]))


def _decoded(path: Path, raw: Iterable[bytes]) -> Iterator[Line]:
    for number, text in enumerate(raw, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: not a JSON line: {error}") from None
        if not isinstance(line, dict) or "kind" not in line or not isinstance(line.get("schema"), int):
            raise UsageError(f"{path}:{number}: expected an object with `schema` and `kind`")
        if line["schema"] > SCHEMA:
            raise UsageError(
                f"{path}:{number}: schema {line['schema']} is newer than {SCHEMA}, the newest that this version reads"
            )
        yield line


def _encode(line: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **_finite(line)}, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN and no Inf: they become their names as text, so that they are not lost as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def _drop_cut_line(path: Path) -> None:
    """Cut the file after its last complete line, so that the next one starts on a line of its own."""
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    if end < len(raw):
        os.truncate(path, end)
