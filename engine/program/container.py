"""Writes and reads a program's file: the safetensors library writes it and checks it; this module reads the tensors.

Knows bytes, dtypes and hashes; knows nothing of programs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from engine import dtypes
from engine.errors import ConfigError, ExecutionError, ProgramError, ShapeError, UnsupportedOp
from engine.memory import aligned_empty, release

_EXPECTED = "expected a file that the save method of a program or a decoder wrote"
_KEY = "program"
_HASH = "program_sha256"
# The engine's names of the element types -> the names in safetensors.
_NAMES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {theirs: dtypes.dtype(ours) for ours, theirs in _NAMES.items()}
_CHUNK_BYTES = 256 << 10  # stays in a core's second-level cache until its checksum is computed

# Every exception that wrong contents of a file can cause in the code that reads, checks and binds a program.
_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, ExecutionError, ShapeError, UnsupportedOp),
)
_CAUSE_OF_SYSTEM = re.compile(r"I/O error: (.+) \(os error \d+\)$")
"""The system's words at the end of an error of safetensors."""


def path_of(path: object) -> Path:
    """`path` as a Path. ConfigError if it is no str or Path, or none that a file of this system can have."""
    try:
        name = os.fsencode(path) if isinstance(path, str | os.PathLike) else b""
    except UnicodeEncodeError:
        name = b""
    if not name or b"\0" in name:
        raise ConfigError(f"path: expected the name of a file, a str or a Path, got {path!a}")
    return Path(os.fsdecode(name))


@contextmanager
def convert_errors(path: object) -> Iterator[None]:
    """Turn every error that the contents of the file cause in this block into a ProgramError that begins with `path`.
    A ConfigError is not converted: it concerns an argument of the user.
    """
    try:
        yield
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror or error}") from None
    except MemoryError:
        cause = "the machine has too little, or the file is damaged"
        raise ProgramError(f"{path}: reading it asks for more memory than the system grants: {cause}") from None
    except _FAULTS as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise ProgramError(f"{path}: the file is damaged: {told}") from error


# --- writing ---------------------------------------------------------------------------------------------------------


def write(path: Path, tensors: Mapping[str, np.ndarray], header: bytes) -> None:
    """Write tensors and header, from which alone the bytes follow. A file at `path` is always complete: it is written
    beside it and renamed.
    """
    dense = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in tensors.items()}
    metadata = {_KEY: header.decode(), _HASH: hashlib.sha256(header).hexdigest()}
    try:
        path = path.resolve()  # what a link points to is replaced, not the link
        if path.exists() and not path.is_file():
            raise ProgramError(f"{path}: cannot be written: it is no regular file")
    except (OSError, RuntimeError) as e:  # a name that is too long, a link that leads to itself
        raise ProgramError(f"{path}: cannot be written: {getattr(e, 'strerror', None) or e}") from None
    # Of its own for each call, whatever process and thread; and no longer than a name may be.
    temporary = path.with_name(f"{path.name[:20]}.{uuid.uuid4().hex}.partial")
    try:
        temporary.touch()
        mode = stat.S_IMODE(temporary.stat().st_mode)  # according to the process's umask; safetensors sets 0600
        safetensors.numpy.save_file(dense, temporary, metadata)
        _sort_metadata(temporary)
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as e:
        raise ProgramError(f"{path}: cannot be written: {e.strerror or e}") from None
    except safetensors.SafetensorError as e:
        cause = _CAUSE_OF_SYSTEM.search(str(e))
        raise ProgramError(f"{path}: cannot be written: {cause[1] if cause else e}") from None
    finally:
        with contextlib.suppress(OSError):  # after `replace`, or if nothing was written, there is no such file
            temporary.unlink()


def _sort_metadata(path: Path) -> None:
    """Sort the entries of the metadata in the file at `path`, which safetensors writes in another order each time."""
    with path.open("rb", buffering=0) as file:
        index, start = _read_index(file)
    index["__metadata__"] = dict(sorted(index["__metadata__"].items()))
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=False).encode()
    if len(text) > start - 8:  # written with fewer escapes than Python writes; the order then stays as it is
        return
    with path.open("r+b") as file:
        file.seek(8)
        file.write(text.ljust(start - 8))  # as many bytes as before: the order changes, and spaces fill up to `start`


# --- reading ---------------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """The entry of a tensor in the index of a file; `begin` and `end` count bytes from the end of the index."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int

    @classmethod
    def of(cls, name: str, described: Mapping[str, Any]) -> _Entry:
        """The entry that an index has for the tensor `name`."""
        begin, end = described["data_offsets"]
        return cls(name, _DTYPES[described["dtype"]].numpy, tuple(described["shape"]), begin, end)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in an open file, from byte `start` on, read when called. A `checksum` of None is not checked."""

    file: FileIO
    entry: _Entry
    start: int
    checksum: str | None = None
    is_new = True  # memory, each time

    @property
    def nbytes(self) -> int:
        return self.entry.end - self.entry.begin

    def __call__(self) -> np.ndarray:
        """The elements, read into new memory. Raises as `read_into`."""
        return self.read_into(aligned_empty(self.nbytes))

    def read_into(self, memory: np.ndarray) -> np.ndarray:
        """The elements, read into the first bytes of `memory`, as a read-only view of it.

        `memory` is uint8, of at least `nbytes`, aligned for the element type. ProgramError if the file has become
        shorter or the checksum differs; OSError if the file cannot be read.
        """
        target, digest = memory[: self.nbytes], None if self.checksum is None else hashlib.sha256()
        for part in _read_parts(self.file, self.start, target.data, self.entry.name):
            if digest is not None:
                digest.update(part)
        if digest is not None and digest.hexdigest() != self.checksum:
            raise ProgramError(f"the checksum of {self.entry.name} does not match: the file is damaged")
        array = target.view(self.entry.dtype).reshape(self.entry.shape)
        array.flags.writeable = False
        return array


@contextmanager
def opened(path: Path, *, mapped: bool) -> Iterator[tuple[bytes, dict[str, Tensor]]]:
    """Open a file for this block. Yields the program's header, and the tensors by name.

    If `mapped`, each is a read-only array over the mapped file, which stays mapped while any of them exists, or, if it
    is not aligned for its element type, an `UnalignedTensor`. Otherwise each is a `StoredTensor`.
    ProgramError if the file is no whole safetensors file or holds no program, or its header's hash is wrong; other
    damage raises errors that `convert_errors` converts.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # opening a pipe would block until another process opens it for writing
        raise ProgramError(f"not a regular file; {_EXPECTED}")
    with path.open("rb", buffering=0) as file:
        try:
            with safetensors.safe_open(path, "numpy"):  # which checks the index, so that it need not be checked below
                pass
        except safetensors.SafetensorError as error:
            raise ProgramError(f"not an engine file, or a damaged one: {error}; {_EXPECTED}") from None
        index, start = _read_index(file)
        metadata = index.pop("__metadata__", {})
        if _KEY not in metadata:
            raise ProgramError(f"not an engine file; {_EXPECTED}")
        header = metadata[_KEY].encode()
        if hashlib.sha256(header).hexdigest() != metadata[_HASH]:
            raise ProgramError("the header's hash does not match: the file is damaged")
        entries = [_Entry.of(name, described) for name, described in index.items()]
        if mapped:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[start:]
            yield header, {entry.name: _mapped(entry, data) for entry in entries}
        else:
            yield header, {entry.name: StoredTensor(file, entry, start + entry.begin) for entry in entries}


def parse_json(text: bytes) -> Any:
    """The value of a JSON document in UTF-8. ValueError or RecursionError if it is none, has a key twice, or has an
    unpaired surrogate, which cannot be written to a file or a terminal.
    """
    value = json.loads(str(text, "utf-8"), object_pairs_hook=_object)
    if b"\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key comes twice: {[key for key, _ in pairs]}")
    return found


def _read_index(file: FileIO) -> tuple[dict[str, Any], int]:
    """The index of an open file, and the position after it."""
    length = int.from_bytes(file.read(8), "little")
    return parse_json(file.read(length)), 8 + length


def _read_parts(file: FileIO, start: int, target: memoryview, what: str) -> Iterator[memoryview]:
    """Read `target` from `start`; yields each part when it has been read. Threads may share a file. ProgramError, which
    names `what`, if the file ends too early, because another process has shortened it.
    """
    done = 0
    while done < len(target):
        count = os.preadv(file.fileno(), [target[done : done + _CHUNK_BYTES]], start + done)
        if not count:
            raise ProgramError(f"the file was shortened while it was read: {what} lacks {len(target) - done} bytes")
        yield target[done : done + count]
        done += count


# --- mapped memory ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnalignedTensor:
    """A tensor in a mapped file that is not aligned for its element type; copied to other memory when called."""

    raw: np.ndarray
    entry: _Entry

    def __call__(self) -> np.ndarray:
        copy = aligned_empty(self.raw.size)
        copy[:] = self.raw
        release(self.raw)
        return copy.view(self.entry.dtype).reshape(self.entry.shape)


Tensor = np.ndarray | StoredTensor | UnalignedTensor


def _mapped(entry: _Entry, data: memoryview) -> Tensor:
    raw = np.frombuffer(data[entry.begin : entry.end], np.uint8)
    # Kernels need elements at their natural alignment; a header of odd length makes all of them unaligned.
    if raw.ctypes.data % entry.dtype.itemsize:
        return UnalignedTensor(raw, entry)
    return raw.view(entry.dtype).reshape(entry.shape)
