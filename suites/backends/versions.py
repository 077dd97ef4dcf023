"""Other versions of the engine as backends: ``engine@PATH``, where PATH is a checkout or an environment, or
``engine@REVISION``, where REVISION is a commit of this checkout.

`resolve` finds the interpreter of PATH, asks it about its engine and gives the version a name that stays meaningful in
records: ``engine@0123456789ab`` by the commit of the checkout, with ``-dirty`` where files differ from it, or
``engine@0.1.0+3f2a1b9c`` by version and content where the engine belongs to no checkout. From then on that name is the
backend's. `command` starts the other interpreter; this process never imports the other engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from suites import paths
from suites.backends import revisions
from suites.backends.base import BackendSwitch
from suites.harness.declare.case import BackendRef
from suites.harness.errors import UsageError
from suites.harness.files import resolve_links
from suites.harness.record import machine
from suites.other_engine import launch

ENGINE = "engine"
PREFIX = f"{ENGINE}@"
INTERPRETERS = (Path(".venv/bin/python"), Path("bin/python"))
"""Where the interpreter lies, in a checkout and in an environment."""
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Version:
    """An engine of another environment.

    Attributes:
        name: the backend's name in labels and records; names no folder.
        interpreter: the environment's ``bin/python``.
        roots: folders without symbolic links that its package and extension must lie under.
        facts: for the record: `version`, `commit`, `dirty`, `digest` (of its sources and extension), `python`,
            `packages`. `commit` and `dirty` are None outside of a checkout.
    """

    name: str
    interpreter: Path
    roots: tuple[str, ...]
    facts: Mapping[str, Any]


_named: dict[str, Version] = {}
"""Versions that `resolve` has named in this process."""
_unbuilt: ContextVar[set[str] | None] = ContextVar("_unbuilt", default=None)
"""Names of commits that `resolve` has not built; None outside of `without_building`."""


@contextmanager
def without_building() -> Iterator[set[str]]:
    """Inside, `resolve` names a commit and does not build it: to list and to check what would run.

    Nothing is known of such a version but its commit, so its options are not checked. It is forgotten at the end.
    The set has the names of these versions.
    """
    names = set[str]()
    token = _unbuilt.set(names)
    try:
        yield names
    finally:
        _unbuilt.reset(token)
        for name in names:
            del _named[name]


def is_version(name: str) -> bool:
    """True for the name of another version of the engine, resolved or not."""
    return name.startswith(PREFIX) and ".py:" not in name


def get(name: str) -> Version:
    """The version of that name, which `resolve` has given it in this process."""
    return _named[name]


def resolve(label: str, folder: Path) -> str:
    """`label` with the lasting name of its version in the place of a path; any other label as it is.

    Args:
        label: such as ``engine@../old[disable=fuse_rope]`` or ``engine@HEAD~3``. If a folder has this name, it is used.
        folder: what a relative path is relative to.

    Raises:
        UsageError: there is no such folder or commit; it has no engine that can be used; another folder has its name.
    """
    ref = BackendRef.parse(label)
    if not is_version(ref.name) or ref.name in _named:
        return label
    unbuilt = _unbuilt.get()
    path, commit = _find_place(ref.name.removeprefix(PREFIX), folder)
    if commit is None:
        found = _find(path)
    elif unbuilt is None:
        found = _find(revisions.prepare(path, commit, lambda line: sys.stderr.write(f"{line}\n")))
    else:
        facts: dict[str, Any] = {"commit": commit[:12], "dirty": False, "digest": "", "python": "", "packages": {}}
        roots = (str(revisions.find_folder(path, commit)),)
        found = Version(f"{PREFIX}{commit[:12]}", Path(sys.executable), roots, facts)
        if found.name not in _named:
            unbuilt.add(found.name)
    known = _named.setdefault(found.name, found)
    if known.roots[0] != found.roots[0]:
        raise UsageError(
            f"two backends would both be called {found.name}: {known.roots[0]} and {found.roots[0]}. Leave "
            "one of them out or, if their files differ, commit the changes"
        )
    return replace(ref, name=found.name).spelling


def _find_place(text: str, folder: Path) -> tuple[Path, str | None]:
    """The folder that a path names and None, or else this checkout and the commit of it that a revision names."""
    path, root = resolve_links(folder / Path(text).expanduser()), machine.checkout()
    if not path.is_dir() and root is not None and (commit := revisions.find_commit(root, text)) is not None:
        return root, commit
    return path, None


def command(interpreter: Path, module: str, *arguments: str) -> list[str]:
    """The command line that runs `module` of this checkout's `suites` under another interpreter."""
    root = str(paths.IMPORTED_FROM.resolve())
    further = os.environ.get("PYTHONPATH", "")  # a user's own models may import from there
    return [str(interpreter), "-P", launch.__file__, root, further, module, *arguments]


def environment() -> dict[str, str]:
    """The environment variables of this process but for those that would bring in its own packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def check_options(name: str, options: Mapping[str, str]) -> None:
    """UsageError where a value of `options` names nothing that this version has."""
    version = get(name)
    if name not in (_unbuilt.get() or ()):
        _ask(version.interpreter, version.roots, "check_options", json.dumps(dict(options), sort_keys=True))


def switches(name: str) -> Sequence[BackendSwitch]:
    """The switches of this version: its own passes, kernels and so on, not those of this checkout."""
    version = get(name)
    return [BackendSwitch(**fields) for fields in _ask(version.interpreter, version.roots, "switches")]


@cache
def _find(path: Path) -> Version:
    """The version whose checkout or environment is `path`."""
    interpreter = next((path / place for place in INTERPRETERS if (path / place).is_file()), None)
    if interpreter is None:
        expected = f"expected a commit of this checkout, or a folder with {' or '.join(map(str, INTERPRETERS))}"
        raise UsageError(f"{PREFIX}{path}: {expected}")
    roots = (str(path), str(interpreter.parent.parent.resolve()))
    answer = _ask(interpreter, roots, "describe")
    package = Path(answer["package"])
    digest = _digest(package, Path(answer["extension"]))
    # The commit says what the sources of the checkout are, which an engine that was installed from them need not be.
    of_checkout = package == path / ENGINE and (path / ".git").exists()
    revision = machine.revision_of(path if of_checkout else None)
    commit, dirty = revision["commit"], revision["dirty"]
    by_content = f"{answer['version'] or 'unknown'}+{digest[:8]}"
    name = by_content if commit is None else f"{commit}{'-dirty' if dirty else ''}"
    facts = {key: answer[key] for key in ("version", "python", "packages")}
    facts |= {"commit": commit, "dirty": dirty, "digest": digest}
    return Version(f"{PREFIX}{name}", interpreter, roots, facts)


def _digest(package: Path, extension: Path) -> str:
    """Of what runs: every Python file of the package by its place in it, and the extension."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    found.update(extension.read_bytes())
    return found.hexdigest()[:12]


@cache
def _ask(interpreter: Path, roots: tuple[str, ...], ask: str, options: str = "{}") -> Any:
    """The answer of `suites.other_engine.describe`; UsageError with its reason where there is none."""
    question = json.dumps({"ask": ask, "roots": roots, "options": json.loads(options)})
    line = command(interpreter, "suites.other_engine.describe", question)
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment())
        answer = json.loads(ended.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        answer = {"error": str(error)}
    except ValueError:
        *_, last = ["", *ended.stderr.strip().splitlines()]
        answer = {"error": f"ended with exit status {ended.returncode}: {last}"}
    if "error" in answer:
        raise UsageError(f"{interpreter}: {' '.join(answer['error'].split())}")
    return answer["ok"]
