"""Passes from outside of this repository: ``path.py:function``, or an entry point of the group ``enginebench.passes``.

The function takes one graph. It may also be a `Pass`, which states its constraints. A process executes each version of
a file once. The graph is checked after every such pass: an error of the pass would otherwise appear in a later stage,
as a defect of the engine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from engine.errors import ConfigError, VerificationError
from engine.graph import Graph, verify
from engine.installed import load_installed
from engine.passes.base import Pass
from engine.suggest import unknown

GROUP = "enginebench.passes"

_ENGINE = str(Path(__file__).parents[1])

_modules: dict[tuple[Path, str], ModuleType] = {}


def load(path: str) -> Pass:
    """The pass that ``path.py:function`` names; a relative path starts at the current folder.

    The result is the file's `Pass` for the function, or else a pass without constraints. That one has the name of the
    function, or of the file if the function is called ``run``. Raises ConfigError if there is no such file or function,
    if the file raises, or if the function does not take one graph.
    """
    file_name, _, function = path.rpartition(":")
    file = Path(file_name).expanduser().resolve()
    if not file_name.endswith(".py") or not function.isidentifier():
        raise ConfigError(f"pass {path!r}: expected path.py:function, with the name of a function after the colon")
    if not file.is_file():
        raise ConfigError(f"pass {path!r}: no such file: {file}; a relative path starts at the current folder")
    source = file.read_bytes()
    module = _module(path, file, source)
    found = getattr(module, function, None)
    if found is None:
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise ConfigError(f"pass {path!r}: {file.name}: {unknown('function', function, own)}")
    return as_pass(path, found, file.stem if function == "run" else function, _version(source))


def as_pass(what: str, found: object, name: str, version: str) -> Pass:
    """`found` if it is a `Pass`, else the `Pass` of its module that runs it, else a pass `name` without constraints.

    Raises a ConfigError that names `what`, if `found` is no function that takes one graph.
    """
    if isinstance(found, Pass):
        one = found
    else:
        declared = vars(sys.modules.get(getattr(found, "__module__", ""), object)).values()
        one = next((p for p in declared if isinstance(p, Pass) and p.run is found), None) or _bare(what, found, name)
    if not one.name.isidentifier():
        raise ConfigError(f"pass {what!r}: its name {one.name!r} has to be an identifier; give its Pass another name")
    return replace(one, version=version)


def _bare(what: str, found: object, name: str) -> Pass:
    expected = "expected a function run(graph) that returns the number of its changes, or a Pass"
    if not callable(found):
        raise ConfigError(f"pass {what!r}: {expected}, got {type(found).__name__}")
    try:
        inspect.signature(found).bind(None)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"pass {what!r}: {expected}; with one argument: {error}") from None
    return Pass(name, found)


def run(one: Pass, graph: Graph) -> int:
    """Run a pass from outside of this repository on `graph`, in place, and check the graph. Returns the changes.

    Raises ConfigError if the pass raises, returns no number of changes, or leaves a graph that breaks a rule or has
    other inputs, outputs or states than before.
    """
    before = _describe_interface(graph)
    try:
        changes = one.run(graph)
    except Exception as error:
        raise ConfigError(f"pass {one.name!r}: it raised {_describe_error(error)}") from error
    if type(changes) is not int or changes < 0:
        raise ConfigError(f"pass {one.name!r}: expected the number of its changes, got {changes!r}")
    try:
        verify.graph(graph)
        after = _describe_interface(graph)
    except VerificationError as error:
        # A defect of somebody else's pass is no defect of the engine, as the text of a VerificationError says.
        raise ConfigError(f"pass {one.name!r}: the graph breaks a rule after it: {error.reason}") from error
    except Exception as error:  # the pass may have left anything in the lists of the graph
        raise ConfigError(
            f"pass {one.name!r}: the graph cannot be read after it: {type(error).__name__}: {error}"
        ) from error
    for what, found in after.items():
        if found != before[what]:
            raise ConfigError(f"pass {one.name!r}: it changed the {what} of the graph from {before[what]} to {found}")
    return changes


def _describe_interface(graph: Graph) -> dict[str, str]:
    """What callers of the graph rely on, in words."""
    return {
        "inputs": _list(map(repr, graph.inputs)),
        "types of the outputs": _list(str(value.type) for value in graph.outputs),
        "states": _list(name for name, _first in graph.states),
    }


def _list(texts: Iterable[str]) -> str:
    return f"({', '.join(texts)})"


def _describe_error(error: Exception) -> str:
    """Class and text of an error, with the last line outside of the engine that raised it."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_ENGINE)]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _version(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:12]


def _module(path: str, file: Path, source: bytes) -> ModuleType:
    digest = _version(source)
    if (file, digest) in _modules:
        return _modules[file, digest]
    name = f"_own_pass_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{digest}"
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ConfigError(f"pass {path!r}: {file} cannot be imported")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look a class's module up by its name
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"pass {path!r}: {file} raised {type(error).__name__}: {error}") from error
    _modules[file, digest] = module
    return module


def installed() -> list[Pass]:
    """The passes of installed packages, by name of entry point; ConfigError if one is no pass, or fails to import."""
    found = []
    for name, value, what, loaded in load_installed(GROUP):
        file = inspect.getsourcefile(loaded.run if isinstance(loaded, Pass) else loaded)
        source = Path(file).read_bytes() if file else value.encode()
        found.append(as_pass(what, loaded, name, _version(source)))
    return found
