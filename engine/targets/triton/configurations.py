"""Which configuration a kernel runs in: the fastest one measured on the device, otherwise what the kernel's rule says.

`enginebench tune` measures and writes; planning only reads. There is a file for each kind of device, in the user's
cache, which is asked first, and in `devices` beside this module. Neither torch nor triton is imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine.errors import ConfigError
from engine.targets.triton.launch import next_power_of_two
from engine.targets.tuned import Tuned

SCHEMA = 1
PACKAGED = Path(__file__).parent / "devices"
"""Tables that belong to the package."""


class Question(NamedTuple):
    """What a configuration is chosen for: a kernel, and `sizes` as `describe_sizes` writes them.

    `source` is a hash of the text of the kernel and of what it calls: a measurement holds for one text only.
    """

    kernel: str
    source: str
    sizes: str


class Finder(Protocol):
    """Answers questions while steps are planned."""

    def find(self, question: Question, candidates: Sequence[Any], rule: Any) -> Any:
        """One of `candidates`, or `rule`."""


class RuleOnly(Finder):
    """Lets the kernel's rule decide."""

    def find(self, question: Question, candidates: Sequence[Any], rule: Any) -> Any:
        del question, candidates
        return rule


class Measured(Finder):
    """Answers from the tables of a kind of device; ConfigError if one cannot be read.

    The first of `folders` that has a row for a question answers it.
    """

    def __init__(self, device: str, folders: Sequence[Path]) -> None:
        self._rows: dict[Question, Tuned] = {}
        for folder in reversed(folders):
            rows = read_table(folder / file_of(device))
            self._rows |= {Question(row.kernel, row.source, row.sizes): row for row in rows}

    def find(self, question: Question, candidates: Sequence[Any], rule: Any) -> Any:
        row = self._rows.get(question)
        return rule if row is None else next((c for c in candidates if c._asdict() == row.configuration), rule)


@cache
def measured_on(device: str) -> Finder:
    """The tables of a kind of device, read once a process. Raises ConfigError as `Measured`."""
    return Measured(device, (user_folder(), PACKAGED))


def user_folder() -> Path:
    """The folder of the user's own tables. Not created here."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "enginebench" / "triton"


def file_of(device: str) -> str:
    """Name of the file for a kind of device: ``NVIDIA H200`` -> ``nvidia-h200.json``."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


def describe_sizes(types: Sequence[str], **sizes: int) -> str:
    """The class that sizes belong to, each rounded up to a power of two; `types` are names of what else matters."""
    return " ".join((*(f"{name}<={next_power_of_two(size)}" for name, size in sizes.items()), *types))


@cache
def hash_source(function: Any) -> str:
    """Hash of the file of a kernel, of the files beside it that several kernels share, and of triton's version."""
    path = Path(inspect.getsourcefile(function.fn) or "")
    files = [path, *sorted(other for other in path.parent.glob("_*.py") if other != path)]
    parts = [importlib.metadata.version("triton").encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


# --- files -----------------------------------------------------------------------------------------------------------


def read_table(path: Path) -> list[Tuned]:
    """The rows of a table; none if there is no such file; ConfigError if it is damaged, or of another version."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a table of configurations: {error}") from None
    try:
        found = json.loads(text)
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}, expected {SCHEMA}")
        return [Tuned.from_dict(row) for row in found["rows"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"{path}: no table of configurations of kernels: {reason}. Remove the file; enginebench tune makes it anew"
        ) from None


def check_folder(folder: Path, device: str) -> None:
    """Make the folder if there is none. ConfigError as `write_rows` would raise it after the measurement."""
    read_table(folder / file_of(device))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to: {error.strerror}") from None


def write_rows(folder: Path, device: str, rows: Iterable[Tuned], versions: Mapping[str, str]) -> Path:
    """Add rows to the table of a kind of device, in place of rows of the same kernel and sizes; returns the file.

    `versions` are of the packages that the measurement depends on. ConfigError if the file that is there is damaged, or
    the folder cannot be written to.
    """
    check_folder(folder, device)
    path = folder / file_of(device)
    known = {(row.kernel, row.sizes): row for row in (*read_table(path), *rows)}
    listed = [known[key].to_dict() for key in sorted(known)]
    table = {"schema": SCHEMA, "device": device, "versions": dict(versions), "rows": listed}
    try:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write(json.dumps(table, indent=1) + "\n")
        Path(file.name).replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    measured_on.cache_clear()
    return path
