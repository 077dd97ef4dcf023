"""Answers one question about the engine of the environment that runs it. Started by `suites.backends.versions`.

``python -P launch.py ROOT PATHS suites.other_engine.describe QUESTION``, where QUESTION is JSON:
``{"ask": "describe" | "check_options" | "switches", "roots": [...], "options": {...}}``. The answer is one line of JSON
on standard output: ``{"ok": ...}`` or ``{"error": reason}``. What libraries print goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from suites.other_engine.launch import check_origin, explain


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one question, as the docstring of this module says."""
    try:
        check_origin(question["roots"])
    except Exception as error:  # noqa: BLE001  # whatever another version raises is the reason
        return {"error": f"engine cannot be imported there: {type(error).__name__}: {error}"}
    try:
        setting = getattr(importlib.import_module("engine.config"), "Setting", None)
        if not hasattr(setting, "targets"):
            return {"error": "this engine is too old for this harness: it does not declare which settings it has"}
        return {"ok": _ASK[question["ask"]](question["options"])}
    except Exception as error:  # noqa: BLE001  # as above
        is_usage = any(base.__name__ == "EngineError" for base in type(error).__mro__)
        return {"error": str(error) if is_usage else explain(error)}


def _describe(_options: Mapping[str, str]) -> dict[str, Any]:
    """`package` (the folder of the engine), `extension` (a file), `version` (None: not installed), `python`,
    `packages` (versions of those that take part).
    """
    from suites.harness.record import machine

    engine, extension = (Path(str(sys.modules[name].__file__)) for name in ("engine", "engine._native"))
    try:
        version: str | None = metadata.version("enginebench")
    except metadata.PackageNotFoundError:
        version = None
    return {
        "package": str(engine.resolve().parent),
        "extension": str(extension),
        "version": version,
        "python": platform.python_version(),
        "packages": {name: value for name, value in machine.versions().items() if name != "enginebench"},
    }


def _check_options(options: Mapping[str, str]) -> None:
    from suites.backends.engine import Engine

    Engine.check_options(options)


def _list_switches(_options: Mapping[str, str]) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from suites.backends.engine import Engine

    return [asdict(switch) for switch in Engine.switches()]


_ASK = {"describe": _describe, "check_options": _check_options, "switches": _list_switches}


def main() -> None:
    """Answer the question of the command line."""
    standard_output = os.dup(1)
    os.dup2(2, 1)
    line = json.dumps(answer(json.loads(sys.argv[1])))
    os.write(standard_output, line.encode())


if __name__ == "__main__":
    main()
