"""Answers one question about the engine of the environment that runs it. Started by `suites.backends.versions`.

``python -P launch.py ROOT PATHS suites.other_engine.describe QUESTION``, where QUESTION is JSON:
``{"ask": "describe" | "check_options" | "switches", "roots": [...], "options": {...}}``. The answer is one line of JSON
on standard output: ``{"ok": ...}`` or ``{"error": reason}``. What libraries print goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from suites.other_engine.launch import check_origin, explain

EXTENSION = "engine._native"


class Refused(Exception):
    """The engine cannot be used; the message says why in one line."""


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one question, as the docstring of this module says."""
    try:
        _import_engine(question["roots"])
        return {"ok": _ASK[question["ask"]](question.get("options", {}))}
    except Refused as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001  # whatever another version raises is the reason
        return {"error": _reason(error)}


def _import_engine(roots: Sequence[str]) -> None:
    """Import the engine; Refused where it cannot be imported, is not built, or comes from elsewhere."""
    try:
        importlib.import_module("engine")
        importlib.import_module(EXTENSION)
    except Exception as error:  # noqa: BLE001  # as above
        if isinstance(error, ImportError) and "_native" in str(error):
            raise Refused(f"the extension of the engine is not built there ({_one_line(error)})") from None
        raise Refused(f"engine cannot be imported there: {_one_line(error)}") from None
    try:
        check_origin(roots)
    except RuntimeError as error:
        raise Refused(str(error)) from None
    if importlib.util.find_spec("torch") is None:
        raise Refused("torch is not installed there")


def _describe(_options: Mapping[str, str]) -> dict[str, Any]:
    """`package` (the folder of the engine), `extension` (a file), `version` (None: not installed), `python`,
    `packages` (versions of those that take part).
    """
    from suites.harness.record import machine

    engine, extension = (sys.modules[name] for name in ("engine", EXTENSION))
    try:
        version: str | None = metadata.version("enginebench")
    except metadata.PackageNotFoundError:
        version = None
    return {
        "package": str(Path(str(engine.__file__)).resolve().parent),
        "extension": str(extension.__file__),
        "version": version,
        "python": platform.python_version(),
        "packages": {name: value for name, value in machine.versions().items() if name != "enginebench"},
    }


def _check_options(options: Mapping[str, str]) -> None:
    from suites.backends.engine import Engine

    Engine.check_options(options)


def _turns(_options: Mapping[str, str]) -> list[dict[str, Any]]:
    from suites.backends.engine import Engine

    return [asdict(switch) for switch in Engine.switches()]


_ASK = {"describe": _describe, "check_options": _check_options, "switches": _turns}


def _reason(error: Exception) -> str:
    """An error of a user as it is; others with their type."""
    is_usage = any(base.__name__ == "EngineError" for base in type(error).__mro__)
    return _one_line(error, with_type=False) if is_usage else " ".join(explain(error).split())


def _one_line(error: Exception, *, with_type: bool = True) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if with_type else text


def main() -> None:
    """Answer the question of the command line."""
    standard_output = os.dup(1)
    os.dup2(2, 1)
    line = json.dumps(answer(json.loads(sys.argv[1])))
    os.write(standard_output, line.encode())


if __name__ == "__main__":
    main()
