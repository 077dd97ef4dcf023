"""What the source of a user's Python file tells before it is executed. Never executes it, and claims only what is sure.

Models and backends of a user are checked with this when a run is planned, so that a misspelled name or a missing
package does not show after minutes of measuring.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

_NAMING = ("exec", "globals", "locals", "setattr", "vars")
"""Names by which a file may define others that its source does not spell."""
_FINDING = ("importlib", "site", "sys")
"""Modules by which a file may change which modules are found."""
_OWN = ("engine", "suites")
"""The packages of this project. To look for a module in a package imports the package, so it is done in no others."""


def parse(path: Path) -> ast.Module:
    """The source of a file.

    Raises:
        OSError: the file cannot be read.
        SyntaxError, ValueError: it is not valid Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's literals; Python shows them when it runs the file
        return ast.parse(path.read_bytes(), path.name)


def find_fault_of_name(path: Path) -> str | None:
    """Why a user's file cannot be used because of its name or that of a folder; None if it can be."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:  # Python cannot import the file, and no record can have its name
        printable = str(path).encode(errors="backslashreplace").decode()
        return (
            f"the path {printable} is not in UTF-8, or Python does not read it as UTF-8 in this locale; rename the "
            "file or the folder, or set PYTHONUTF8=1"
        )
    return None


def let_import_neighbours(path: Path) -> None:
    """Let a file that is about to be executed import modules of its folder, then and later."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))


def may_define(tree: ast.Module, name: str) -> bool:
    """False if no statement of the source can give `name` to anything, or the file surely deletes it again."""
    return not is_deleted(tree, name) and _may_bind(tree, name)


def list_names(tree: ast.AST) -> Iterator[str]:
    """The names that statements bind outside of all functions and classes, and those of walruses anywhere."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
                yield from (one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
                continue
            case ast.Name(name, ast.Store()):
                yield name
            case ast.alias(name, asname):
                yield asname or name.partition(".")[0]
            case ast.MatchAs(name=str(name)) | ast.MatchStar(str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        yield from list_names(node)


def is_deleted(tree: ast.Module, name: str) -> bool:
    """True if a statement at the top of the file deletes `name`, and nothing binds it after that."""
    deletes = [one.lineno for one in tree.body if isinstance(one, ast.Delete) for target in one.targets
               if getattr(target, "id", None) == name]  # fmt: skip
    if not deletes or _names_by_text(tree) or "__getattr__" in list_names(tree):
        return False
    if any(isinstance(one, ast.Global) and name in one.names for one in ast.walk(tree)):
        return False
    later = ast.Module([one for one in tree.body if one.lineno > deletes[-1]], [])
    return {name, "*"}.isdisjoint(list_names(later))


def find_missing_module(tree: ast.Module, folder: Path) -> str | None:
    """What the file imports whenever it is executed, and that is nowhere; None if there is no such thing.

    It is the first part of a module's name, or the whole name of a module that a package of this project lacks.

    Args:
        tree: the source of the file.
        folder: that of the file. What lies in it, or in the current folder, is taken to be found.
    """
    modules = [name for node in tree.body for name in _list_imports(node)]
    if not {name.partition(".")[0] for node in ast.walk(tree) for name in _list_imports(node)}.isdisjoint(_FINDING):
        return None
    for name in modules:
        top = name.partition(".")[0]
        places = [place / part for place in (folder, Path.cwd()) for part in (top, f"{top}.py")]
        if not any(place.exists() for place in places) and not _is_importable(top):
            return top
        parts = name.split(".") if top in _OWN else []
        lacking = (one for one in itertools.accumulate(parts, "{}.{}".format) if not _is_importable(one))
        if (module := next(lacking, None)) is not None:
            return module
    return None


def find_undefined_base(tree: ast.Module) -> tuple[str, str] | None:
    """A class at the top of the file and a base class of it whose name nothing defines; None if there is none."""
    for found in [one for one in tree.body if isinstance(one, ast.ClassDef)]:
        for base in found.bases:
            name = getattr(base, "id", None)
            if name is not None and not hasattr(builtins, name) and not _may_bind(tree, name):
                return found.name, name
    return None


def find_class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    """The class of that name; None unless a class statement without decorators surely is all that binds the name."""
    if _names_by_text(tree) or [*list_names(tree)].count(name) != 1:
        return None
    found = next((one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name), None)
    return None if found is None or found.decorator_list or found.keywords else found


def list_classes(tree: ast.Module) -> list[str]:
    """The names of the classes that the file defines at its top, and does not delete again."""
    return [one.name for one in tree.body if isinstance(one, ast.ClassDef) and not is_deleted(tree, one.name)]


def is_no_class(tree: ast.Module, name: str) -> bool:
    """True if the only statement that binds `name` defines a function, or gives it a number, text or display."""
    if _names_by_text(tree) or [*list_names(tree)].count(name) != 1:
        return False
    data = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return not node.decorator_list
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return isinstance(node.value, data)
    return False


def list_assigned_attributes(tree: ast.AST) -> set[str]:
    """The names of the attributes that statements anywhere assign to, whatever has these attributes."""
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def takes_positional(taken: ast.arguments, count: int) -> bool:
    """True if a function with these parameters can be called with `count` arguments that are not named."""
    most = len(taken.posonlyargs) + len(taken.args)
    needed = most - len(taken.defaults)
    return needed <= count and (taken.vararg is not None or count <= most) and None not in taken.kw_defaults


def is_async(tree: ast.Module, name: str) -> bool:
    """True if the only statement that binds `name` is an ``async def`` without decorators."""
    if _names_by_text(tree) or [*list_names(tree)].count(name) != 1:
        return False
    found = [node for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name == name]
    return bool(found) and not found[0].decorator_list


def get_base_names(found: ast.ClassDef) -> list[str | None]:
    """The name of each base class, of ``a.b`` the last part; None for one that is no name."""
    return [getattr(base, "attr", getattr(base, "id", None)) for base in found.bases]


def is_imported_from(tree: ast.Module, module: str, name: str) -> bool:
    """True if an import from `module`, without another name, is all that binds `name`."""
    if _names_by_text(tree) or [*list_names(tree)].count(name) != 1:
        return False
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == module]
    return any(alias.name == name and alias.asname is None for node in imports for alias in node.names)


def _may_bind(tree: ast.Module, name: str) -> bool:
    """False if no statement of the source can give `name` to anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and node.name == "*":
            return True
        if isinstance(node, ast.Global) and name in node.names:
            return True
    return _names_by_text(tree) or not {name, "__getattr__"}.isdisjoint(list_names(tree))


def _names_by_text(tree: ast.Module) -> bool:
    """True if the file may define names that its source does not spell."""
    return any(
        getattr(node, "id", None) in _NAMING or getattr(node, "attr", None) == "modules"  # of sys
        for node in ast.walk(tree)
    )


def _list_imports(node: ast.AST) -> list[str]:
    """The modules that an import statement imports; none for another statement, or a relative import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # it is there, and cannot be asked
