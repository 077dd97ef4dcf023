"""A backend in a user's file, ``path.py:Class``: checked by its source when a run is planned, executed in a worker."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path

from engine.suggest import unknown
from suites import sources
from suites.backends.base import Backend
from suites.harness.errors import UsageError, describe_os_error

BASE = f"{Backend.__module__}.{Backend.__name__}"


def split(name: str) -> tuple[Path, str] | None:
    """File and class of ``path.py:Class``; None for another name; UsageError if the file is missing."""
    path, colon, class_name = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        return None
    if not Path(path).is_file():
        raise UsageError(f"backend {name!r}: no such file {path}")
    return Path(path), class_name


def check(name: str, path: Path, class_name: str) -> None:
    """UsageError if the source of the file shows that `load` would refuse the class. Does not execute the file."""
    try:
        tree = sources.parse(path)
    except OSError as error:
        raise UsageError(f"backend {name!r}: {path} cannot be read: {describe_os_error(error)}") from None
    except (SyntaxError, ValueError) as error:
        reason = f"{path} is not valid Python: {type(error).__name__}: {error}"
        raise UsageError(f"backend {name!r}: {reason}") from None
    if not sources.may_define(tree, class_name):
        raise UsageError(f"backend {name!r}: {path}: {unknown('class', class_name, sources.list_classes(tree))}")
    missing = sources.find_missing_module(tree, path.parent)
    if missing is not None:
        raise UsageError(f"backend {name!r}: {path} imports {missing}, which is not installed")
    found = sources.find_class(tree, class_name)
    if sources.is_no_class(tree, class_name) or (found is not None and not found.bases):
        raise UsageError(_explain_no_backend(name, path, class_name))
    lacking = _list_lacking(tree, found) if found is not None else []
    if lacking:
        raise UsageError(_explain_lacking(name, path, class_name, lacking))


def load(name: str, path: Path, class_name: str) -> type[Backend]:
    """The class. Executes the file.

    Raises:
        UsageError: there is no such class, it is no backend, or it lacks a method that every backend has.
    """
    spec = importlib.util.spec_from_file_location(f"backend_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"backend {name!r}: {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sources.let_import_neighbours(path.resolve())
    spec.loader.exec_module(module)
    found = getattr(module, class_name, None)
    if found is None:
        raise UsageError(f"backend {name!r}: {path} has no {class_name}")
    if not (isinstance(found, type) and issubclass(found, Backend)):
        raise UsageError(_explain_no_backend(name, path, class_name))
    if inspect.isabstract(found):
        raise UsageError(_explain_lacking(name, path, class_name, sorted(found.__abstractmethods__)))
    return found


def _list_lacking(tree: ast.Module, found: ast.ClassDef) -> list[str]:
    """Methods that `found` surely lacks: those of every backend that neither it nor a base in the file defines.

    Empty if a base is a class of another file, which may define them.
    """
    defined: set[str] = set()
    left, seen = [found], set[str]()
    while left:
        one = left.pop()
        if one.name in seen:
            return []  # executing the file will say what is wrong with such bases
        seen.add(one.name)
        defined |= {*sources.list_names(one)}
        for base in sources.get_base_names(one):
            if base == Backend.__name__ and sources.is_imported_from(tree, Backend.__module__, base):
                continue
            further = sources.find_class(tree, base) if base is not None and base != one.name else None
            if further is None:
                return []
            left.append(further)
    return sorted(Backend.__abstractmethods__ - defined)


def _explain_no_backend(name: str, path: Path, class_name: str) -> str:
    return f"backend {name!r}: {class_name} of {path} is no class derived from {BASE}"


def _explain_lacking(name: str, path: Path, class_name: str, lacking: list[str]) -> str:
    return f"backend {name!r}: {class_name} of {path} has no {' and no '.join(lacking)}, which every backend has"
