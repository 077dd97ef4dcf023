"""The file around a program: safetensors written by its own library, read here by memory map without a copy.

Knows bytes, dtypes and hashes; knows nothing of programs.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy

from engine import dtypes
from engine.errors import ConfigError, ProgramError

_KEY = "program"
_HASH = "program_sha256"
# safetensors' names of the element types, by ours.
_NAMES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {theirs: dtypes.dtype(ours) for ours, theirs in _NAMES.items()}


def checksum(array: np.ndarray) -> str:
    """SHA-256 of the elements in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def path_of(path: object) -> Path:
    """`path` as a Path; ConfigError for what names no file."""
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"path: expected the name of a file, a str or a Path, got {path!r}")
    return Path(path)


def write(path: Path, tensors: Mapping[str, np.ndarray], header: bytes) -> None:
    """Write tensors and header. The file appears whole or not at all."""
    dense = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in tensors.items()}
    metadata = {_KEY: header.decode(), _HASH: hashlib.sha256(header).hexdigest()}
    if not path.name or not path.parent.is_dir():
        raise ProgramError(f"{path}: cannot be written: {'not a file name' if not path.name else 'no such folder'}")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        safetensors.numpy.save_file(dense, temporary, metadata)
        temporary.replace(path)
    except OSError as e:
        raise ProgramError(f"{path}: cannot be written: {e.strerror or e}") from None
    except safetensors.SafetensorError as e:
        raise ProgramError(f"{path}: cannot be written: {e}") from None
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> tuple[bytes, dict[str, np.ndarray]]:
    """The header's bytes and the tensors, memory-mapped and read-only.

    Raises:
        ProgramError: no such file, not safetensors, out-of-range offsets, or the header's hash does not match.
    """
    try:
        with path.open("rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size < 8:
                raise ProgramError(f"{path}: {size} bytes are too few for a program")
            data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as e:
        raise ProgramError(f"{path}: {e.strerror or e}") from None
    length = int.from_bytes(data[:8], "little")
    if length > size - 8:
        raise ProgramError(f"{path}: truncated: the header wants {length} bytes of {size - 8}")
    try:
        index = json.loads(data[8 : 8 + length])
        metadata = index.pop("__metadata__")
        header = metadata[_KEY].encode()
        if hashlib.sha256(header).hexdigest() != metadata[_HASH]:
            raise ProgramError(f"{path}: the header's hash does not match: the file is damaged")
        body = memoryview(data)[8 + length :]
        end = max((entry["data_offsets"][1] for entry in index.values()), default=0)
        if len(body) != end:
            raise ProgramError(f"{path}: {len(body)} bytes follow the header, its tensors end at {end}")
        return header, {name: _tensor(name, entry, body) for name, entry in index.items()}
    except ProgramError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as e:
        raise ProgramError(f"{path}: not a program of this engine: {type(e).__name__}: {e}") from None


def _tensor(name: str, entry: Mapping[str, object], body: memoryview) -> np.ndarray:
    dtype = _DTYPES[str(entry["dtype"])]
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise ValueError(f"tensor {name}: malformed entry")
    if any(not isinstance(n, int) or n < 0 for n in (*shape, *offsets)):
        raise ValueError(f"tensor {name}: malformed sizes")
    begin, end = offsets
    count = 1
    for n in shape:
        count *= n
    if end > len(body) or end - begin != count * dtype.size:
        raise ValueError(f"tensor {name}: {end - begin} bytes at {begin} do not fit {shape} in {len(body)}")
    return np.frombuffer(body[begin:end], dtype.numpy).reshape(shape)


def release(array: np.ndarray) -> None:
    """Give the pages of an array that `read` mapped back to the system; they come again when somebody looks.

    Anything else is left alone. It keeps a process that packs its weights from holding them twice.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else None
    if not isinstance(mapped, mmap.mmap) or not hasattr(mapped, "madvise"):
        return
    first = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE  # a page shared with a neighbour stays
    end = (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)
