"""``path.pt2``: a program that `torch.export.save` wrote, with the inputs that it was exported with."""

from __future__ import annotations

import logging
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.harness.record.reasons import tidy
from suites.models._sets import InputSets
from suites.models._spec import Arguments, ModelError, ModelSpec, UnknownModel
from suites.models.user import inputs

if TYPE_CHECKING:
    import torch

_EXPECTED = "expected a file that torch.export.save wrote"
_MEMBER, _MEMBER_UNTIL_2_7 = "/models/model.json", "serialized_exported_program.json"
"""Members that hold the graph of the program: with PyTorch 2.8 or newer, and before."""

_CHUNK = 1 << 20


def spec(name: str, file: Path, entry: str) -> ModelSpec:
    """The model of the file. It has no sizes and no options. Its input sets are as `InputSets` says.

    Raises:
        UnknownModel: something follows the path.
        ModelError: the file holds no exported program.
    """
    if entry:
        raise UnknownModel(f"model {name!r}: expected {file.name} with nothing behind it, got {entry!r}")
    if not _holds_program(file):
        raise ModelError(f"model {name!r}: {file.name} is damaged or no exported program; {_EXPECTED}")
    known: list[InputSets] = []

    def make(_arguments: Arguments) -> Any:
        module, own = _load(name, file)
        known[:] = [InputSets(own)]
        return module

    def get_sets(arguments: Arguments) -> InputSets:
        if not known:
            make(arguments)
        return known[0]

    summary = f"the exported program of {file.name}"
    return ModelSpec(name=name, summary=summary, make=make, sets=get_sets, keeps_types=True)


def _holds_program(file: Path) -> bool:
    """True if the file is an archive with the member in which torch.export.save writes the graph of a program."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):  # a name in no encoding, an unknown version
        return False
    return any(name == _MEMBER_UNTIL_2_7 or name.endswith(_MEMBER) for name in names)


def _find_damaged(file: Path) -> str | None:
    """The first member of the archive whose checksum does not match, or that cannot be read; None if all are whole.

    torch.export.load does not compare the checksums: a program with other weights would be measured.
    """
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            try:
                with archive.open(member) as content:
                    while content.read(_CHUNK):  # compares the checksum at the end
                        pass
            except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError):
                return member.filename
    return None


@contextmanager
def _held_log(name: str) -> Iterator[list[BaseException]]:
    """Hides what this thread logs to a logger; yields the exceptions of the hidden records."""
    thread, held = threading.get_ident(), []

    def hold(record: logging.LogRecord) -> bool:
        if threading.get_ident() != thread:
            return True
        if record.exc_info is not None and record.exc_info[1] is not None:
            held.append(record.exc_info[1])
        return False

    logger = logging.getLogger(name)
    logger.addFilter(hold)
    try:
        yield held
    finally:
        logger.removeFilter(hold)


def _load(name: str, file: Path) -> tuple[Any, list[tuple[torch.Tensor, ...]]]:
    import torch

    if (member := _find_damaged(file)) is not None:
        raise ModelError(f"model {name!r}: {file.name} is damaged: its member {member!r} is not as it was written")
    with _held_log("torch.export") as logged:
        try:
            program = torch.export.load(file)
        except Exception as error:
            cause = logged[0] if logged else error
            reason = tidy(f"{type(cause).__name__}: {cause}")
            raise ModelError(
                f"model {name!r}: torch.export.load cannot read {file.name}: {reason}; {_EXPECTED}"
            ) from error
    if program.example_inputs is None:
        raise ModelError(
            f"model {name!r}: {file.name} has no example inputs; save a program that torch.export.export returned, "
            "before anything else changed it"
        )
    return inputs.arranged(f"model {name!r}: {file.name}", (program, program.example_inputs))
