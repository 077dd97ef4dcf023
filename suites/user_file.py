"""What a user's Python file defines: a child process imports it and answers. `load` executes it in this process.

Importing a file may print, exit, crash or never end, so a run asks a child once, before it measures anything. Knows no
models and no backends.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import Any

from suites import paths
from suites.harness.errors import UsageError
from suites.harness.record.reasons import clean

IN_WORKER = "ENGINEBENCH_WORKER"
"""Environment variable of processes that execute the user's files after the parent has asked about them."""
TIMEOUT_S = 60.0
"""Time that a child may take."""
FUNCTION, ASYNC_FUNCTION, CLASS, VALUE = "a function", "an async function", "a class", "a value"


class ImportFailed(UsageError):
    """A file cannot be imported; the message names the file and, if there is a traceback, the line."""


@dataclass(frozen=True)
class Definition:
    """What a name at the top of a file is bound to.

    Attributes:
        kind: `FUNCTION`, which is any callable that is nothing else, `ASYNC_FUNCTION`, `CLASS` or `VALUE`.
        is_own: False if it was imported from another module.
        parameters: name, kind, whether there is a default, and the name of the annotated type or else of the default's
            type; of a class those of ``__init__`` without self. None if Python does not know them.
        bases: full names of a class and of all of its bases.
    """

    kind: str
    is_own: bool
    parameters: list[tuple[str, str, bool, str | None]] | None
    bases: list[str]

    @property
    def signature(self) -> Signature | None:
        """The parameters, with names of types as annotations, and None as each default."""
        if self.parameters is None:
            return None
        return Signature(
            [
                Parameter(
                    name, getattr(Parameter, kind), default=None if optional else Parameter.empty, annotation=type_
                )
                for name, kind, optional, type_ in self.parameters
            ]
        )


def split(what: str, name: str) -> tuple[Path, str] | None:
    """File and class of ``path.py:Class``; None for another name.

    Args:
        what: what `name` names, for messages: ``backend`` or ``device``.
        name: as the user gave it.

    Raises:
        UsageError: there is no such file, or Python cannot import a file of that name.
    """
    path, colon, class_name = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        return None
    fault = find_fault_of_name(Path(path)) if Path(path).is_file() else f"no such file {path}"
    if fault is not None:
        raise UsageError(f"{what} {name!r}: {fault}")
    return Path(path), class_name


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


def ask(path: Path) -> Mapping[str, Definition] | None:
    """The names that the file defines; None in a worker, which executes the file only when it builds the model.

    A child imports each file once, until the file changes.

    Raises:
        ImportFailed: the file cannot be imported.
    """
    if os.environ.get(IN_WORKER):  # an import here would change what is measured: import times, memory
        return None
    status = path.stat()
    answer = _ask(path.absolute(), (status.st_mtime_ns, status.st_size))
    if "error" in answer:
        raise ImportFailed(answer["error"])
    return {name: Definition(**one) for name, one in answer["names"].items()}


def load(path: Path) -> ModuleType:
    """The module of the file, which is executed anew; it can import modules of its folder, then and later.

    Raises:
        ImportFailed: the file raises an error or calls `sys.exit`.
    """
    path = path.absolute()
    name = f"_user_file_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    loader = SourceFileLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and torch.export look a class's module up by its name
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            reason = f"{path.name} imports {error.name}, which is not installed{_find_line(error, path)}"
        else:
            reason = f"importing {path.name} raised {describe_error(error, path)}"
        raise ImportFailed(reason) from error
    return module


def describe(module: ModuleType) -> Mapping[str, Definition]:
    """The names of a module that `load` returned, as `ask` gives them."""
    return {name: _define(value, module.__name__) for name, value in vars(module).items()}


def describe_error(error: BaseException, path: Path) -> str:
    """The class and the text of an error, in one line, and the innermost line of the file that it passed through."""
    return " ".join(clean(f"{type(error).__name__}: {error}").split()) + _find_line(error, path)


def _find_line(error: BaseException, path: Path) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if Path(one.filename).resolve() == path.resolve()]
    return f" ({path.name}, line {lines[-1]})" if lines else ""


@cache
def _ask(path: Path, _stamp: tuple[int, int]) -> dict[str, Any]:
    roots = [str(paths.IMPORTED_FROM), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, IN_WORKER: "1", "PYTHONPATH": os.pathsep.join(filter(None, roots))}
    null = subprocess.DEVNULL
    # The answer has a file of its own: what the user's file prints, and processes that it starts, cannot disturb it.
    with tempfile.TemporaryFile() as stream:
        own = stream.fileno()
        command = [sys.executable, "-P", "-m", "suites.user_file", str(path), str(own)]
        try:
            code = subprocess.call(
                command, stdin=null, stdout=null, stderr=null, env=environment, pass_fds=[own], timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return {"error": f"importing {path.name} took longer than {TIMEOUT_S:g} s"}
        stream.seek(0)
        text = stream.read()
    if text:
        answer: dict[str, Any] = json.loads(text)
        return answer
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
    return {"error": f"the process that imported {path.name} {how}"}


def _answer(path: Path) -> dict[str, Any]:
    try:
        return {"names": {name: asdict(one) for name, one in describe(load(path)).items()}}
    except ImportFailed as error:
        return {"error": str(error)}


def _define(value: Any, module: str) -> Definition:
    kind = CLASS if isinstance(value, type) else FUNCTION if callable(value) else VALUE
    return Definition(
        kind=ASYNC_FUNCTION if inspect.iscoroutinefunction(value) else kind,
        is_own=getattr(value, "__module__", None) == module,
        parameters=_list_parameters(value) if callable(value) else None,
        bases=[f"{one.__module__}.{one.__qualname__}" for one in value.__mro__] if kind is CLASS else [],
    )


def _list_parameters(value: Any) -> list[tuple[str, str, bool, str | None]] | None:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # a function of C
        return None
    return [(one.name, one.kind.name, one.default is not Parameter.empty, _name_type(one)) for one in parameters]


def _name_type(one: Parameter) -> str | None:
    if one.annotation is not Parameter.empty:
        return str(getattr(one.annotation, "__name__", one.annotation))
    return None if one.default is Parameter.empty else type(one.default).__name__


def main() -> None:
    """Write the answer about the file of the first argument to the file descriptor of the second, as JSON."""
    answer = json.dumps(_answer(Path(sys.argv[1])))
    with os.fdopen(int(sys.argv[2]), "w") as stream:
        stream.write(answer)
    os._exit(0)  # threads that the file started may never end


if __name__ == "__main__":
    main()
