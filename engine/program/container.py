"""Writes and reads a program's file: the safetensors library writes it; this module reads it and checks every offset.

Knows bytes, dtypes and hashes; knows nothing of programs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from engine import dtypes
from engine.errors import ConfigError, ExecutionError, ProgramError, ShapeError, UnsupportedOp
from engine.memory import aligned_empty

_EXPECTED = "expected a file that the save method of a program or a decoder wrote"
_KEY = "program"
_HASH = "program_sha256"
# The engine's names of the element types -> the names in safetensors.
_NAMES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {theirs: dtypes.dtype(ours) for ours, theirs in _NAMES.items()}
_MOST_HEADER_BYTES = 100_000_000  # safetensors' own reader refuses longer headers
_MOST_AXES = 32  # NumPy before version 2 allows no more
_CHUNK_BYTES = 256 << 10  # stays in a core's second-level cache until its checksum is computed

# Every exception that wrong contents of a file can cause in the code that reads, checks and binds a program.
_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, ExecutionError, ShapeError, UnsupportedOp),
)
_CAUSE_OF_SYSTEM = re.compile(r"I/O error: (.+) \(os error \d+\)$")
"""The system's words at the end of an error of safetensors."""


def checksum(array: np.ndarray) -> str:
    """SHA-256 of the elements in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def path_of(path: object) -> Path:
    """`path` as a Path. ConfigError if it is neither a str nor a Path, or a text that no file can have as its name."""
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"path: expected the name of a file, a str or a Path, got {path!r}")
    if path == "" or "\0" in str(path):
        what = "an empty text" if path == "" else f"{str(path)!r}, and no name of a file has a null character"
        raise ConfigError(f"path: expected the name of a file, got {what}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        what = f"{path!a}, which has characters that this system's names of files cannot have"
        raise ConfigError(f"path: expected the name of a file, got {what}") from None
    return Path(path)


@contextmanager
def convert_errors(path: object) -> Iterator[None]:
    """Turn every error that the contents of the file cause in this block into a ProgramError that begins with `path`.

    A ConfigError is not converted: it concerns an argument of the user and not the file.
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
    """Write tensors and header. A file at `path` is always complete: it is written beside it and renamed.

    The bytes of the file follow from `tensors` and `header` alone.
    """
    dense = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in tensors.items()}
    metadata = {_KEY: header.decode(), _HASH: hashlib.sha256(header).hexdigest()}
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as e:  # a name that is too long, a link that leads to itself
        raise ProgramError(f"{path}: cannot be written: {e.strerror or e}") from None
    if not path.name or not path.parent.is_dir():
        raise ProgramError(f"{path}: cannot be written: {'not a file name' if not path.name else 'no such folder'}")
    path = path.resolve()  # what a link points to is replaced, not the link
    if path.exists() and not path.is_file():
        raise ProgramError(
            f"{path}: cannot be written: {'it is a folder' if path.is_dir() else 'it is no regular file'}"
        )
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
        index, start = _read_index(file, path.stat().st_size)
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


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in an open file, read when called.

    Attributes:
        file: open for reading.
        entry: its element type and shape.
        start: position of its first byte in the file.
        checksum: expected SHA-256 of the elements, in hexadecimal digits; None: it is not checked.
    """

    file: FileIO
    entry: _Entry
    start: int
    checksum: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.entry.end - self.entry.begin

    def __call__(self) -> np.ndarray:
        """The elements, read into new memory. Raises as `read_into`."""
        return self.read_into(aligned_empty(self.nbytes))

    def read_into(self, memory: np.ndarray) -> np.ndarray:
        """The elements, read into the first bytes of `memory`.

        Args:
            memory: uint8, at least `nbytes` elements, at an address that is aligned for the element type.

        Returns:
            A read-only view of `memory`.

        Raises:
            ProgramError: the file has become shorter, or the elements have another checksum.
            OSError: the file cannot be read.
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
def opened(path: Path, *, mapped: bool) -> Iterator[tuple[bytes, dict[str, np.ndarray | Callable[[], np.ndarray]]]]:
    """Open a file. Yields the program's header, and the tensors by name.

    Args:
        path: the file; it is open inside of this block.
        mapped: True: each tensor is a read-only array over the mapped file, which stays mapped while any of them
            exists; for a tensor that is not aligned for its element type, a function that returns an aligned copy.
            False: each tensor is a `StoredTensor`.

    Raises:
        ProgramError: the file is no safetensors file or holds no program, ends too early or too late, or its header's
            hash is wrong.
        ValueError, LookupError, TypeError, AttributeError, OSError: other damage; `convert_errors` converts these.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # opening a pipe would block until another process opens it for writing
        raise ProgramError(f"not a regular file; {_EXPECTED}")
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        index, start = _read_index(file, size)
        metadata = index.pop("__metadata__", {})
        if _KEY not in metadata:
            raise ProgramError(f"not an engine file; {_EXPECTED}")
        header = metadata[_KEY].encode()
        if hashlib.sha256(header).hexdigest() != metadata[_HASH]:
            raise ProgramError("the header's hash does not match: the file is damaged")
        entries = _entries(index, size - start)
        if mapped:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[start:]
            yield header, {entry.name: _mapped(entry, data) for entry in entries}
        else:
            yield header, {entry.name: StoredTensor(file, entry, start + entry.begin) for entry in entries}


def parse_json(text: bytes) -> Any:
    """The value of the JSON document `text`, in UTF-8.

    Raises:
        ValueError, RecursionError: it is no JSON, has a key twice, or has an unpaired surrogate, which cannot be
            written to a file or a terminal.
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


def _read_index(file: FileIO, size: int) -> tuple[dict[str, Any], int]:
    """The index of a file of `size` bytes, and the position after it."""
    start = _read_bytes(file, 0, min(size, 9))
    length = int.from_bytes(start[:8], "little")
    if start[8:] != b"{" or not 0 < length <= _MOST_HEADER_BYTES:
        raise ProgramError(f"not an engine file; {_EXPECTED}")
    if length > size - 8:
        raise ProgramError(f"truncated: the header should have {length} bytes, and {size - 8} are left")
    index = parse_json(_read_bytes(file, 8, length))
    if not isinstance(index, dict):
        raise ProgramError("the file is damaged: the header is no JSON object")
    return index, 8 + length


def _read_bytes(file: FileIO, start: int, count: int) -> bytes:
    return b"".join(map(bytes, _read_parts(file, start, memoryview(bytearray(count)), "the header")))


def _read_parts(file: FileIO, start: int, target: memoryview, what: str) -> Iterator[memoryview]:
    """Read `target` from position `start`; yields each part when it has been read. Threads may share a file.

    Raises:
        ProgramError: the file ends too early, because another process has shortened it; names `what`.
    """
    done = 0
    while done < len(target):
        count = os.preadv(file.fileno(), [target[done : done + _CHUNK_BYTES]], start + done)
        if not count:
            raise ProgramError(f"the file was shortened while it was read: {what} lacks {len(target) - done} bytes")
        yield target[done : done + count]
        done += count


def _entries(index: Mapping[str, Any], nbytes: int) -> list[_Entry]:
    """The tensors of a file by position. They must cover `nbytes` bytes without gaps and overlaps."""
    entries = sorted((_entry(name, one) for name, one in index.items()), key=lambda entry: (entry.begin, entry.end))
    end = 0
    for entry in entries:
        if entry.begin != end:
            raise ValueError(f"tensor {entry.name} begins at {entry.begin}, but the previous tensor ends at {end}")
        end = entry.end
    if end != nbytes:
        cut = "truncated: " if nbytes < end else ""
        raise ProgramError(f"{cut}{nbytes} bytes follow the header, but its tensors end at {end}")
    return entries


def _entry(name: str, described: Mapping[str, Any]) -> _Entry:
    dtype = _DTYPES[described["dtype"]]
    shape, (begin, end) = _sizes(name, described["shape"]), _sizes(name, described["data_offsets"])
    if len(shape) > _MOST_AXES or end - begin != math.prod(shape) * dtype.size:
        raise ValueError(f"tensor {name}: {end - begin} bytes do not fit {dtype.name}{shape}")
    return _Entry(name, dtype.numpy, tuple(shape), begin, end)


def _sizes(name: str, values: Sequence[Any]) -> Sequence[int]:
    if not isinstance(values, list) or any(type(n) is not int or not 0 <= n < 1 << 63 for n in values):
        raise ValueError(f"tensor {name}: malformed sizes")
    return values


# --- mapped memory ---------------------------------------------------------------------------------------------------


def _mapped(entry: _Entry, data: memoryview) -> np.ndarray | Callable[[], np.ndarray]:
    raw = np.frombuffer(data[entry.begin : entry.end], np.uint8)
    # Kernels need elements at their natural alignment; a header of odd length makes all of them unaligned.
    if raw.ctypes.data % entry.dtype.itemsize:
        return partial(_copy_aligned, raw, entry)
    return raw.view(entry.dtype).reshape(entry.shape)


def _copy_aligned(raw: np.ndarray, entry: _Entry) -> np.ndarray:
    copy = aligned_empty(raw.size)
    copy[:] = raw
    release(raw)
    return copy.view(entry.dtype).reshape(entry.shape)


def is_mapped(array: np.ndarray) -> bool:
    """True if the elements of `array` are in a mapped file."""
    return _mapping_of(array) is not None


def _mapping_of(array: np.ndarray) -> mmap.mmap | None:
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else None
    return mapped if isinstance(mapped, mmap.mmap) else None


def release(array: np.ndarray) -> None:
    """Give the pages of an array over a mapped file back to the system, which reads them again at the next access.

    Does nothing for other arrays. Without it, a process that packs its weights would hold them in memory twice.
    """
    mapped = _mapping_of(array)
    if mapped is None or not hasattr(mapped, "madvise"):
        return
    first = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE  # keeps pages that are shared with a neighbour
    end = (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)
