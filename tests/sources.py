"""Which modules a module imports and which headers a file of C includes, read from their text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def list_modules(root: Path, *packages: str) -> dict[str, Path]:
    """Dotted name -> file of all modules in these folders of ROOT."""
    paths = (path for package in packages for path in sorted((root / package).rglob("*.py")))
    return {name_module(root, path): path for path in paths}


def name_module(root: Path, path: Path) -> str:
    """The dotted name of the module in PATH."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_imports(path: Path, paths: Mapping[str, Path]) -> set[str]:
    """Those of PATHS that a module imports anywhere, under `TYPE_CHECKING` and inside of functions too."""
    return find_imports(ast.parse(path.read_text()), paths)


def find_imports(tree: ast.AST, paths: Mapping[str, Path]) -> set[str]:
    """The same of a module that is parsed already."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            wholes = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {whole if whole in paths else str(node.module) for whole in wholes}
    return found & set(paths)


def follow_imports(names: Iterable[str], paths: Mapping[str, Path]) -> set[str]:
    """The modules of these names, what they import, what that imports, and so on, and the packages that these are in.

    Of a package that only contains a module, what its `__init__` imports is not followed: who uses `engine.dtypes` does
    not depend on all that the package `engine` offers.
    """
    found: set[str] = set()
    left = set(names)
    while left:
        found.add(name := left.pop())
        left |= read_imports(paths[name], paths) - found
    parts = [name.split(".") for name in found]
    return found | {".".join(part[:end]) for part in parts for end in range(1, len(part))} & set(paths)


def follow_includes(files: Iterable[Path], folders: Iterable[Path]) -> set[Path]:
    """FILES, the headers that they include by name, beside them or in FOLDERS, and what those include."""
    found: set[Path] = set()
    left = set(files)
    while left:
        found.add(path := left.pop())
        for name in _INCLUDE.findall(path.read_text()):
            candidates = ((folder / name).resolve() for folder in (path.parent, *folders))
            left |= {one for one in candidates if one.is_file()} - found
    return found
