"""Workers of the harness that are forked from one process, which has imported torch and exported a model once.

A worker that starts as a process of its own spends seconds on imports. Tests that are not about that start get theirs
from multiprocessing's fork server; `@pytest.mark.real_workers` keeps the real start. So do workers with more than one
thread, whose runtimes read the number of threads when they are imported, and those of another version of the engine.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, reduction
from pathlib import Path
from typing import Any, BinaryIO

from suites.harness.run import session

ROOT = Path(__file__).resolve().parent.parent
start_own = session.start_process
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.forked_imports"])


class _Descriptor:
    """A file descriptor that the forked process gets, too."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return _take, (reduction.DupFd(self.number),)


def _take(made: Any) -> int:
    """The number of a descriptor in the forked process."""
    return made.detach()


class ForkedProcess:
    """What `session.Worker` uses of `subprocess.Popen`."""

    def __init__(
        self, config: dict[str, Any], environment: Mapping[str, str], pipes: tuple[int, int], stderr: int
    ) -> None:
        read, write = os.pipe()
        descriptors = [_Descriptor(number) for number in (*pipes, stderr, write)]
        with contextlib.chdir(ROOT):  # the server starts with the first of them; it finds the module to import there
            forkserver.ensure_running()
        self._process = _CONTEXT.Process(target=_run, args=(config, dict(environment), *descriptors))
        self._process.start()
        os.close(write)
        os.read(read, 1)  # it has a process group of its own now, or it is gone
        os.close(read)
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("forked worker", timeout or 0)
        return self._process.exitcode


def _run(config: dict[str, Any], environment: dict[str, str], read: int, write: int, stderr: int, started: int) -> None:
    """The forked process: what `python -m suites.harness.run.worker CONFIG` would be."""
    from suites.harness.run import worker
    from tests import forked_imports

    os.setsid()
    os.close(started)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, target in ((nothing, 0), (nothing, 1), (stderr, 2)):
        os.dup2(number, target)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *forked_imports.PATH]
    sys.argv = [worker.__file__, json.dumps(config | {"read": read, "write": write})]
    with contextlib.suppress(SystemExit):
        worker.main()


def start(
    command: Sequence[str], environment: Mapping[str, str], pipes: tuple[int, int], stderr: BinaryIO
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Stands in for `session.start_process`."""
    is_own = list(command[:-1]) == session.WORKER_COMMAND
    if not is_own or environment["OMP_NUM_THREADS"] != "1":
        return start_own(command, environment, pipes, stderr)
    return ForkedProcess(json.loads(command[-1]), environment, pipes, stderr.fileno())
