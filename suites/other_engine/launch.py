"""Starts a module of this checkout's `suites` under the interpreter of another environment, whose `engine` it uses.

Run as a file, ``python -P launch.py ROOT PATHS MODULE [ARGUMENT ...]``, because no package of this checkout
can be imported by name before `main` has run. Imports nothing outside of the standard library.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class HarnessFinder:
    """A finder of `sys.meta_path` that takes the package `suites` from the folder `root` alone.

    It has to come first: the hook of an editable installation names a file of its own checkout for every module of
    both packages, whatever `sys.path` says.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002  # the protocol of finders
        """The module `name` of `suites`; None for a module of another package."""
        if name.partition(".")[0] != "suites":
            return None
        found = PathFinder.find_spec(name, [self._root] if path is None else list(path))
        if found is None:  # though the other checkout may have it
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


def check_origin(roots: Sequence[str]) -> None:
    """RuntimeError if the package `engine` of this process, or its extension, comes from no file under `roots`.

    These are folders without symbolic links: the checkout or environment as the user named it, then its environment.
    """
    for name in ("engine", "engine._native"):
        file = getattr(importlib.import_module(name), "__file__", None)
        if file is None or not any(Path(file).resolve().is_relative_to(root) for root in roots):
            raise RuntimeError(f"{name} is imported from {file} there, which is not under {roots[0]}")


def explain(error: BaseException) -> str:
    """The reason of an exception; it says so where the other environment lacks what the harness uses.

    That is a missing name, module or parameter, raised by a frame of `suites`, not of the engine.
    """
    from suites.harness.record.reasons import name_error  # here, because `main` has to run first

    reason = name_error(error)
    frames = traceback.extract_tb(error.__traceback__)
    is_ours = bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parent.parent)
    if is_ours and isinstance(error, AttributeError | ImportError | TypeError):
        return f"this version of the engine, or its environment, lacks what the harness uses: {reason}"
    return reason


def main() -> None:
    """Run the module that the command line names as ``__main__``.

    The entries of PATHS go behind those of the environment, so that no other engine hides the environment's own.
    """
    root, paths, module = sys.argv[1:4]
    del sys.argv[1:4]
    sys.meta_path.insert(0, HarnessFinder(root))
    sys.path += [path for path in paths.split(os.pathsep) if path]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
