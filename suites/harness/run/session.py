"""The parent's side of a worker: start, ask with a time limit, see it die, end it. Knows no statistics."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from engine.processors import allowed_processors, count_processors
from suites import backends, paths, user_file
from suites.backends import versions
from suites.harness.declare.case import BackendRef, Case
from suites.harness.record.reasons import tidy
from suites.harness.record.schema import Status

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
EXPORTS = "exports_"
"""What the folders begin with in which backends keep what they exported."""
PROGRAMS = "programs_"
"""The same of what they compiled; one folder a label."""
_WORKER = "suites.harness.run.worker"
WORKER_COMMAND = [sys.executable, "-P", "-m", _WORKER]
"""What starts a worker of this version of the engine; its config follows."""
_FOLDER, _LOCK = "enginebench-", "lock"


class WorkerFailed(Exception):
    """A worker answered with an error, died, or took too long.

    Attributes:
        status: ``failed``, ``timeout``, ``unavailable`` or ``not applicable``.
        reason: what happened, in one or a few lines.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Worker:
    """A process that runs one backend on one case, or (`ref` None) computes the reference.

    Args:
        case: what it runs.
        ref: who runs it.
        scratch: an existing folder of its own.
        cache: a folder that the workers of this case share from one generation to the next.
        pinned: whether it starts on its processors; otherwise `pin` puts it there.
    """

    def __init__(self, case: Case, ref: BackendRef | None, scratch: Path, cache: Path, *, pinned: bool = True) -> None:
        version = versions.get(ref.name) if ref and versions.is_version(ref.name) else None
        self.label = ref.label if ref else "reference"
        exporter = BackendRef(ref.name, copy=ref.copy).label if ref else "reference"
        self.scratch = scratch
        self._cpus = _pinned(case.threads)
        self._stderr = scratch / "stderr.txt"
        self._buffer = b""
        command_read, self._command = os.pipe()
        self._answers, answer_write = os.pipe()
        config = {
            "case": case.to_dict(),
            "backend": ref.to_dict() if ref else None,
            "roots": version.roots if version else (),
            "imports": backends.imports(ref) if ref else (),
            "scratch": str(scratch),
            # By copy: a second copy of a backend pays for its own export. Switches turn what comes after it.
            "programs": str(scratch_folder(cache, f"{PROGRAMS}{self.label}")),
            "exports": str(scratch_folder(cache, f"{EXPORTS}{exporter}")),
            "cpus": self._cpus if pinned else [],
            "read": command_read,
            "write": answer_write,
        }
        command = [*WORKER_COMMAND, json.dumps(config)]
        if version is not None:  # it needs the interpreter of its own environment
            command = versions.command(version.interpreter, _WORKER, json.dumps(config))
        environment = _environment(version, case.threads, cache)
        with self._stderr.open("wb") as stderr:
            self._process = start_process(command, environment, (command_read, answer_write), stderr)
        os.close(command_read)
        os.close(answer_write)

    @property
    def pid(self) -> int:
        """Of the process, and of its process group."""
        return self._process.pid

    def ask(self, command: str, timeout: float, **arguments: Any) -> dict[str, Any]:
        """The answer to `command`; WorkerFailed (and the worker is gone) where none comes within `timeout` seconds."""
        return self.send(command, timeout, **arguments)()

    def send(self, command: str, timeout: float, **arguments: Any) -> Callable[[], dict[str, Any]]:
        """Give the worker `command`, and return at once a function that waits for the answer as `ask` does."""
        with contextlib.suppress(BrokenPipeError):  # the worker is gone: whoever waits for the answer learns why
            os.write(self._command, (json.dumps({"command": command, **arguments}) + "\n").encode())
        return functools.partial(self._receive, command, time.monotonic() + timeout, timeout)

    def _receive(self, command: str, deadline: float, timeout: float) -> dict[str, Any]:
        line = self._line(command, deadline, timeout)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self.close()
            if "status" in answer:
                raise WorkerFailed(answer["status"], tidy(answer["error"]))
            raise WorkerFailed("failed", tidy(f"{command}: {answer['error']}"))
        value: dict[str, Any] = answer["ok"]
        return value

    def close(self) -> None:
        """End the worker and whatever it started. Does nothing where it is gone."""
        for descriptor in (self._command, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._command = self._answers = -1
        self.kill()
        self._process.wait()

    def kill(self) -> None:
        """End the processes; whoever waits for an answer gets none."""
        with contextlib.suppress(ProcessLookupError):  # every process of the group may be gone already
            os.killpg(self._process.pid, signal.SIGKILL)

    def pin(self, cpus: Sequence[int] | None = None) -> None:
        """Keep every thread of the worker on `cpus`, or on those of its case; threads to come inherit it."""
        chosen = self._cpus if cpus is None else cpus
        for thread in Path(f"/proc/{self._process.pid}/task").glob("*") if chosen else ():
            with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
                os.sched_setaffinity(int(thread.name), chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self, command: str, deadline: float, timeout: float) -> bytes:
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise WorkerFailed("timeout", f"{command} took longer than {timeout:g} s")
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise self._died(command)
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _died(self, command: str) -> WorkerFailed:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            code = 0  # it closed its pipe and lives on; close() below ends it
        self.close()
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with exit status {code}"
        how += " (as by a system that runs out of memory)" if code == -signal.SIGKILL else ""
        said = self._last_words()
        return WorkerFailed("failed", tidy(f"{command}: worker {how}" + (f": {said}" if said else "")))

    def _last_words(self) -> str:
        lines = self._stderr.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def start_process(
    command: Sequence[str], environment: Mapping[str, str], pipes: tuple[int, int], stderr: BinaryIO
) -> subprocess.Popen[bytes]:
    """Start a worker that inherits `pipes`; its standard error goes to `stderr`."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=pipes,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the parent alone; a kill reaches the worker's own children
    )


def _environment(version: versions.Version | None, threads: int, cache: Path) -> dict[str, str]:
    """The environment of a worker: threads for every runtime, and caches that no earlier run has filled."""
    own = dict.fromkeys(THREAD_VARIABLES, str(threads))
    own["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")  # a warm cache would hide the time to compile
    own["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    own["TOKENIZERS_PARALLELISM"] = "false"
    own[user_file.IN_WORKER] = "1"
    if version is not None:
        return versions.environment() | own
    roots = [str(paths.IMPORTED_FROM), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, roots))}


def find_lanes(threads: int) -> list[list[int]]:
    """Sets of processors that share none, for workers of so many threads that run side by side; one set at least."""
    cpus = allowed_processors()[: count_processors()] if hasattr(os, "sched_setaffinity") else []
    return [cpus[begin : begin + threads] for begin in range(0, len(cpus) - threads + 1, threads)] or [[]]


def _pinned(threads: int) -> list[int]:
    """The processors of a worker: the last ones, since the first serve most interrupts. All, where they are too few."""
    cpus = allowed_processors() if hasattr(os, "sched_setaffinity") else []
    return cpus[-threads:] if threads <= len(cpus) else cpus


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def scratch_folder(parent: Path, name: str) -> Path:
    """A new folder under `parent`; `name` may hold characters that no file name has."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    folder = parent / safe
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Scratch of a run, gone behind it. What runs that were killed left behind goes, too: nobody holds their lock."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/{_LOCK}"):
        with contextlib.suppress(OSError), path.open("a") as lock:  # somebody holds it, or it is another user's
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:
        unlocked = Path(name) / f"{_LOCK}.new"  # other runs look for _LOCK, and must not find it unlocked
        with unlocked.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            unlocked.rename(unlocked.with_name(_LOCK))
            yield Path(name)
