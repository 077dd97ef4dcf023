"""Models of a user's own files: one module a kind of file, found by its suffix. Knows no registry and no backend.

``mine.py:factory``, ``mine.py:factory?width=256&depth=2``, ``mine.pt2``, ``mine.onnx``. A further kind is a module with
a function ``spec(name, file, entry)`` and a line in `LOADERS`.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from suites import sources
from suites.models._spec import ModelError, ModelSpec, UnknownModel, read_value

LOADERS = {".py": "factory", ".pt2": "exported", ".onnx": "onnx_file"}
"""Suffix -> the module of this folder that reads such files."""
EXPECTED = "path.py:factory, path.pt2 or path.onnx"
_FILE = re.compile(rf"(?P<path>.*?(?:{'|'.join(map(re.escape, LOADERS))}))(?::(?P<entry>.*))?", re.DOTALL)


def is_path(name: str) -> bool:
    """True if `name` names a file rather than a model of the registry."""
    return Path(_parts(name)[0]).suffix in LOADERS


def find_wrong_kind(name: str) -> str | None:
    """Why `name` is refused if it is a file of another kind than models have; None otherwise."""
    path = Path(name).expanduser()
    if is_path(name) or not path.suffix or not path.is_file():
        return None
    way = "; a saved program is loaded in Python: engine.load(path) has profile(inputs), trace(inputs) and report()"
    return (
        f"a {path.suffix} file holds no model to compile; expected {EXPECTED}{way if path.suffix == '.engine' else ''}"
    )


def file_of(name: str) -> Path:
    """The file that `name` names; it need not exist."""
    return Path(_parts(name)[0]).expanduser()


def split(name: str) -> tuple[str, dict[str, Any]]:
    """`name` without the options behind its question mark, and these options.

    Raises:
        ModelError: an option is not ``key=value``, or is given twice.
    """
    base, mark, query = name.partition("?")
    if not mark or not is_path(name):
        return name, {}
    texts: dict[str, str] = {}
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise ModelError(f"model {name!r}: expected {base}?key=value&key=value, got {part!r}")
        if key in texts:
            raise ModelError(f"model {name!r}: option {key} is given twice; give it once")
        texts[key] = value
    try:
        read = spec(base).read
    except ModelError:  # the caller explains it when the model is used
        return base, {key: read_value(text) for key, text in texts.items()}
    return base, {key: read(key, text) for key, text in texts.items()}


def spec(name: str) -> ModelSpec:
    """The model of the file that `name` names. Nothing of the file is executed before the model is built.

    Raises:
        UnknownModel: there is no such file, or a part of the name is missing.
        ModelError: the file cannot hold a model.
    """
    base, _ = split(name)
    path, entry = _parts(base)
    file = Path(path).expanduser().absolute()  # not resolved: what a link points to may have no suffix
    if not file.is_file():
        raise UnknownModel(f"model {name!r}: no such file: {file}; expected {EXPECTED}")
    if (fault := sources.find_fault_of_name(file)) is not None:
        raise ModelError(f"model {name!r}: {fault}")
    status = file.stat()
    return _loaded(base, file, entry, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _loaded(name: str, file: Path, entry: str, _stamp: tuple[int, int]) -> ModelSpec:
    """The model of a file that has not changed since: a worker asks often, and builds the model once."""
    loader = importlib.import_module(f"{__name__}.{LOADERS[file.suffix]}")
    found: ModelSpec = loader.spec(name, file, entry)
    return found


def _parts(name: str) -> tuple[str, str]:
    """The path, and what follows the colon behind its suffix; the path may have colons, too."""
    base = name.partition("?")[0]
    match = _FILE.fullmatch(base)
    path, _, entry = base.partition(":")
    return (path, entry) if match is None else (match["path"], match["entry"] or "")
