"""The process around one job: commands in, answers out, one JSON object a line on two private pipes.

Started as ``python -m suites.harness.run.worker CONFIG`` by `session.py`. Blocks on its pipe between turns. Standard
output belongs to the libraries and is thrown away, so nothing that they print can break the protocol.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from suites import collector
from suites.harness.record.reasons import name_error, shorten
from suites.other_engine.launch import check_origin, explain

PROTOCOL = 1
"""Version of commands and answers; part of the greeting."""

JOB_COMMANDS = ("load", "provision", "facts", "prepare", "verify", "soak", "warm", "sample")

_ERROR_LIMIT = 8000
"""Characters of an error in an answer; the other end makes a reason of it."""

Handler = Callable[[str, Mapping[str, Any]], dict[str, Any]]


def main() -> None:
    """Serve the job that the JSON in argv[1] describes until the other end closes."""
    config = json.loads(sys.argv[1])
    _die_with_parent()
    # The tables mark such rows, and the last line of standard error is the reason of a worker that dies.
    warnings.filterwarnings("ignore", message=".*use slow kernels")
    if config["cpus"]:
        os.sched_setaffinity(0, config["cpus"])
    with os.fdopen(config["read"], encoding="utf-8") as commands, os.fdopen(config["write"], "w") as answers:
        handle = _reference_handler(config) if config["backend"] is None else _job_handler(config)
        for line in commands:
            command = json.loads(line)
            answers.write(json.dumps(_answer(handle, command, explain if config["roots"] else name_error)) + "\n")
            answers.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # runtimes may hang or crash while they tear down their threads: their work is done


def _answer(handle: Handler, command: dict[str, Any], reason: Callable[[BaseException], str]) -> dict[str, Any]:
    try:
        return {"ok": handle(command.pop("command"), command)}
    except MemoryError:
        return {"error": "MemoryError: out of memory"}
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  # whatever it raises is the row's reason
        # Imported here, because importing it imports the engine, whose import `load` has to time.
        from suites.harness.errors import Refused, UsageError

        if isinstance(error, Refused):
            return {"error": shorten(str(error), _ERROR_LIMIT), "status": error.status}
        if isinstance(error, UsageError):  # a sentence for the user, who does not know the class
            return {"error": shorten(str(error), _ERROR_LIMIT)}
        return {"error": shorten(reason(error), _ERROR_LIMIT)}


def _job_handler(config: Mapping[str, Any]) -> Handler:
    """Commands are methods of a `Job`; `load` makes it."""
    made: list[Any] = []

    def handle(command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if command not in JOB_COMMANDS:
            raise ValueError(f"unknown command {command!r}")
        if command != "load":
            answer: dict[str, Any] = getattr(made[0], command)(**arguments)
            return answer
        # First the imports that are timed: the harness itself imports some of the same packages.
        start = time.perf_counter()
        for name in config["imports"]:
            importlib.import_module(name)
        seconds = time.perf_counter() - start
        if config["roots"]:
            check_origin(config["roots"])
        with collector.paused():
            from suites.harness.declare.case import BackendRef, Case
            from suites.harness.measure.job import Job

        case, ref = Case(**config["case"]), BackendRef(**config["backend"])
        folders = [Path(config[name]) for name in ("scratch", "exports", "programs")]
        made.append(Job(case, ref, *folders))
        return {"protocol": PROTOCOL, "import_s": made[0].load()["import_s"] + seconds}

    return handle


def _reference_handler(config: Mapping[str, Any]) -> Handler:
    """One command: compute the reference outputs of so many input sets and write them."""

    def handle(_command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        from suites.harness.declare.case import Case
        from suites.harness.judge.reference import compute
        from suites.harness.measure import device
        from suites.harness.record import outputs

        case, sets = Case(**config["case"]), []
        where, scratch = device.load(case.device), Path(config["scratch"])
        for seed, made in enumerate(compute(case, arguments["seeds"], where if where.has_float64 else None)):
            files: dict[str, str | None] = {}
            kinds = (("reference", made.outputs), ("unquantised", made.unquantised), ("unfused", made.unfused))
            for kind, arrays in kinds:
                files[kind] = None if arrays is None else f"{kind}_{seed}.npz"
                if arrays is not None:
                    outputs.save(scratch / f"{kind}_{seed}.npz", arrays, made.dtypes)
            others = ("eager_errors", "note", "state", "weight_bytes")
            sets.append({**files, **{name: getattr(made, name) for name in others}})
        return {"sets": sets}

    return handle


def _die_with_parent() -> None:
    """On Linux, ask the kernel to end this process when the one that started it dies, however it dies."""
    if sys.platform == "linux":
        import ctypes
        import signal

        set_death_signal = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    main()
