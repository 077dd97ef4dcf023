"""A backend in a user's file, ``path.py:Class``: checked by its source when a run is planned, executed in a worker."""

from __future__ import annotations

import abc
import ast
import importlib.util
import inspect
from collections.abc import Iterable, Sequence
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
    if (fault := sources.find_fault_of_name(Path(path))) is not None:
        raise UsageError(f"backend {name!r}: {fault}")
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
    undefined = sources.find_undefined_base(tree)
    if undefined is not None:
        raise UsageError(
            f"backend {name!r}: {undefined[0]} of {path} derives from {undefined[1]}, which the file neither defines "
            "nor imports"
        )
    found = sources.find_class(tree, class_name)
    if sources.is_no_class(tree, class_name) or (found is not None and not found.bases):
        raise UsageError(_explain_no_backend(name, path, class_name))
    chain = _list_bases(tree, found) if found is not None else None
    if chain is None:
        return
    lacking = _list_lacking(tree, chain)
    if lacking:
        raise UsageError(_explain_lacking(name, path, class_name, lacking))
    arguments = _find_wrong_arguments(tree, chain)
    if arguments is not None:
        raise UsageError(
            f"backend {name!r}: __init__ of {class_name} of {path} takes ({arguments}); "
            "expected (self, threads, options)"
        )


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
    abc.update_abstractmethods(found)  # some may have been assigned to attributes of it or of a base
    if inspect.isabstract(found):
        raise UsageError(_explain_lacking(name, path, class_name, sorted(found.__abstractmethods__)))
    return found


def _list_bases(tree: ast.Module, found: ast.ClassDef) -> list[ast.ClassDef] | None:
    """`found` and its bases in the file, the nearest ones first; None if others may define methods of it.

    That is so if a base is a class of another file, or if the file gives one of the classes to a function.
    """
    left, known = [found], dict[str, ast.ClassDef]()
    while left:
        one = left.pop(0)
        if one.name in known:
            return None  # Python raises an error for such bases when it executes the file
        known[one.name] = one
        for base in sources.get_base_names(one):
            if base == Backend.__name__ and sources.is_imported_from(tree, Backend.__module__, base):
                continue
            further = sources.find_class(tree, base) if base is not None and base != one.name else None
            if further is None:
                return None
            left.append(further)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return [*known.values()] if known.keys().isdisjoint(getattr(value, "id", None) for value in given) else None


def _list_lacking(tree: ast.Module, classes: Iterable[ast.ClassDef]) -> list[str]:
    """Methods of every backend that neither a body of `classes` nor an assignment to an attribute defines."""
    defined = {name for one in classes for name in sources.list_names(one)} | sources.list_assigned_attributes(tree)
    return sorted(Backend.__abstractmethods__ - defined)


def _find_wrong_arguments(tree: ast.Module, classes: Sequence[ast.ClassDef]) -> str | None:
    """The parameters of the ``__init__`` of a class if it cannot be called with threads and options.

    Args:
        tree: the source of the file.
        classes: the class, and its bases in the order in which Python looks for methods if each has a single base.
    """
    if any(len(one.bases) > 1 for one in classes) or "__init__" in sources.list_assigned_attributes(tree):
        return None
    for one in classes:
        made = [name for name in sources.list_names(one) if name == "__init__"]
        node = next((node for node in one.body if getattr(node, "name", None) == "__init__"), None)
        if made and (len(made) > 1 or not isinstance(node, ast.FunctionDef) or node.decorator_list):
            return None
        if isinstance(node, ast.FunctionDef):
            return None if sources.takes_positional(node.args, 3) else ast.unparse(node.args)
    return None


def _explain_no_backend(name: str, path: Path, class_name: str) -> str:
    return f"backend {name!r}: {class_name} of {path} is no class derived from {BASE}"


def _explain_lacking(name: str, path: Path, class_name: str, lacking: list[str]) -> str:
    return f"backend {name!r}: {class_name} of {path} has no {' and no '.join(lacking)}, which every backend has"
