"""The server of `Trials`: ``python -m engine.inspect.forking FOLDER [SETUP ...]``; a request and an answer are a line.

It has imported what trials need and loaded the case, and has run nothing: threads do not survive a fork.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from engine.inspect.trials import Outcome, name_signal


class Case(NamedTuple):
    """What trials run: torch's exported program, its inputs as ``(positional, keywords)``, and a folder for files."""

    program: Any
    inputs: Any
    folder: Path


def main() -> None:
    """Serve until the other end closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    folder, *setup = sys.argv[1:]
    import torch

    torch.set_num_threads(1)
    for name in ("engine.inspect.observe", *setup):  # no child has to import the tasks
        getattr(_import(name), "prepare_trials", lambda: None)()
    case = Case(
        torch.export.load(Path(folder) / "program.pt2"),
        torch.load(Path(folder) / "inputs.pt", weights_only=False),  # which `save_case` has written
        Path(folder),
    )
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(asdict(_fork(case, request["task"], request["given"], request["limit"]))) + "\n")
        answers.flush()


def _import(name: str) -> ModuleType:
    """A module by name, or the file of a path."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    found = importlib.util.spec_from_file_location(Path(name).stem, name)
    if found is None or found.loader is None:
        raise ImportError(f"{name} cannot be imported")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def _fork(case: Case, task: str, given: dict[str, Any], limit: float) -> Outcome:
    """Run a task in a child. The limit is that of the task; its answer is read until the child has ended."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _run(case, task, given, write)
    os.close(write)
    ends, parts = time.monotonic() + limit, list[bytes]()
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, ends - time.monotonic()))
        part = os.read(read, 1 << 16) if ready else None
        if not part:
            break
        parts.append(part)
    os.close(read)
    if part is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Outcome("hang", text=f"{limit:g} s")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome("crash", text=name_signal(os.WTERMSIG(status)))
    if not parts:
        return Outcome("crash", text=f"exit status {os.WEXITSTATUS(status)}")
    return Outcome(**json.loads(b"".join(parts)))


def _run(case: Case, task: str, given: dict[str, Any], write: int) -> None:
    """In the child: call the task, answer, and end without what an interpreter does at its end."""
    try:
        module, _, function = task.partition(":")
        made = Outcome("done", getattr(importlib.import_module(module), function)(case, **given))
    except BaseException as error:  # noqa: BLE001  # whatever it raises is the outcome
        made = Outcome("error", text=f"{type(error).__name__}: {error}")
    with os.fdopen(write, "w", encoding="utf-8") as pipe:
        json.dump(asdict(made), pipe)
    os._exit(0)


if __name__ == "__main__":
    main()
