"""Models of a user's own files: one module a kind of file, found by its suffix. Knows no registry and no backend.

``mine.py:factory``, ``mine.pt2``, ``mine.onnx``. A further kind is a module with
a function ``spec(name, file, entry)`` and a line in `LOADERS`.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path

from suites import user_file
from suites.models._spec import ModelError, ModelSpec, UnknownModel

LOADERS = {".py": "factory", ".pt2": "exported", ".onnx": "onnx_file"}
"""Suffix -> the module of this folder that reads such files."""
EXPECTED = "path.py:factory, path.pt2 or path.onnx"


def is_path(name: str) -> bool:
    """True if `name` names a file rather than a model of the registry."""
    return Path(_split(name)[0]).suffix in LOADERS


def file_of(name: str) -> Path:
    """The file that `name` names; it need not exist."""
    return Path(_split(name)[0]).expanduser()


def spec(name: str) -> ModelSpec:
    """The model of the file that `name` names. A Python file is executed in a child process first.

    Raises:
        UnknownModel: there is no such file, or no function in it is named.
        ModelError: the file cannot hold a model.
    """
    file = file_of(name).absolute()  # not resolved: what a link points to may have no suffix
    if not file.is_file():
        raise UnknownModel(f"model {name!r}: no such file: {file}; expected {EXPECTED}")
    if (fault := user_file.find_fault_of_name(file)) is not None:
        raise ModelError(f"model {name!r}: {fault}")
    status = file.stat()
    return _load(name, file, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _load(name: str, file: Path, _stamp: tuple[int, int]) -> ModelSpec:
    """The model of a file that has not changed since: a worker asks often, and builds the model once."""
    loader = importlib.import_module(f"{__name__}.{LOADERS[file.suffix]}")
    found: ModelSpec = loader.spec(name, file, _split(name)[1])
    return found


def _split(name: str) -> tuple[str, str]:
    """The path, which may have colons, and what follows the colon behind that of a Python file."""
    path, _, entry = name.rpartition(":")
    return (path, entry) if path.endswith(".py") else (name, "")
