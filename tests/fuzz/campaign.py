"""Runs the programs of many seeds in processes that may die, and keeps what was found.

The process that runs programs is replaced when a program kills it or does not end; the program is saved.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PER_FINDING = 3
"""Programs saved of findings that look alike."""
# Leaks are not looked for: Python keeps much until it ends. A failed allocation is a null pointer, as it is otherwise.
_SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=6144:handle_segv=1:"
    "abort_on_error=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Verdict(NamedTuple):
    """What became of one program: the worker's two answers in one, or how the worker ended."""

    seed: int | Path
    about: Mapping[str, str]
    stage: str
    error: str
    finding: str
    kernels: tuple[str, ...]
    seconds: float

    @property
    def signature(self) -> str:
        """Equal for findings that look alike: the error or report, and where in the engine it came from."""
        first = re.sub(r"0x[0-9a-f]+|\d+", "N", self.finding.strip().splitlines()[0])[:100]
        frames = re.findall(r'engine/(\S+)", line \d+,? in (\w+)', self.finding)
        c_frames = re.findall(r"in (\w+) \S*csrc/(\S+?):\d+", self.finding)
        where = (c_frames or frames or [("", "")])[0 if c_frames else -1]
        subject = "" if frames or c_frames else self.about.get("op", "")
        return " ".join((subject, first, *where)).strip()


class Worker:
    """One process that runs programs, replaced when it dies.

    Args:
        folder: where it writes the program at hand.
        native: a build of the extension module to use in place of the installed one.
        limit: seconds that one program may take.
    """

    def __init__(self, folder: Path, native: Path | None, limit: float) -> None:
        self.folder = folder
        self.limit = limit
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [sys.executable, "-m", "tests.fuzz.worker", str(folder)]
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if native is not None:
            self._command.append(str(native))
            self._environment |= {**_SANITIZERS, "LD_PRELOAD": _runtimes()}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = folder / "stderr.txt"
        self._read = b""

    def check(self, seed: int | Path) -> Verdict:
        """Run the program of a seed, or a file. Whatever happens to the process is part of the answer."""
        process = self._running()
        began = time.perf_counter()
        assert process.stdin is not None
        about: dict[str, Any] = {}
        try:
            process.stdin.write(f"{seed}\n".encode())
            process.stdin.flush()
            about = json.loads(self._line(process, began))
            outcome = json.loads(self._line(process, began))
        except TimeoutError:
            process.send_signal(signal.SIGUSR1)  # the worker writes where it is
            time.sleep(0.5)
            process.kill()
            finding = f"no end within {self.limit} s"
        except (EOFError, OSError):
            finding = ""
        else:
            kernels = tuple(outcome["kernels"])
            return Verdict(
                seed, about, outcome["stage"], outcome["error"], outcome["finding"], kernels, outcome["seconds"]
            )
        code = self._end(process)
        finding = finding or (signal.strsignal(-code) if code < 0 else None) or f"exit status {code}"
        report = self._errors.read_text(errors="replace")[:20000]
        seconds = time.perf_counter() - began
        return Verdict(seed, about, "died", "", f"{_headline(report) or finding}\n{finding}\n{report}", (), seconds)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._read = b""
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=ROOT,
                    env=self._environment,
                    bufsize=0,
                )
        return self._process

    def _line(self, process: subprocess.Popen[bytes], began: float) -> bytes:
        """The next answer. TimeoutError where it does not come in time, EOFError where the process has ended."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(began + self.limit - time.perf_counter(), 0)):
                    raise TimeoutError
                part = process.stdout.read(1 << 16)
                if not part:
                    raise EOFError
                self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._end(self._process)

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of a process that ends, whose pipes are closed."""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        return process.wait()


def is_sanitized(native: Path | None) -> bool:
    """True if this build of the extension module has both sanitizers."""
    return native is not None and all(symbol in native.read_bytes() for symbol in (b"__asan_init", b"__ubsan_handle"))


def _headline(report: str) -> str:
    """The line of a sanitizer's report that says what was wrong."""
    found = re.search(r"runtime error: .*|AddressSanitizer: .*|LeakSanitizer: .*", report)
    return found.group() if found else ""


def _runtimes() -> str:
    """The sanitizers' libraries, which must be loaded before the interpreter's own."""
    names = ("libasan.so", "libubsan.so")
    found = [
        subprocess.run(["gcc", f"-print-file-name={n}"], check=True, capture_output=True, text=True) for n in names
    ]
    return ":".join(str(Path(one.stdout.strip()).resolve()) for one in found)


@dataclass
class Results:
    """What a run covered and found.

    Attributes:
        stages: (kind of program, what became of it) -> programs.
        ops: kind of program -> ops that were its subject and that loading accepted or refused.
        extremes: the ``op.attribute := value`` that were tried.
        accepted_extremes: those of them that some program was loaded with.
        kernels: names of those that ran.
        findings: signature -> verdicts.
        seconds: of the run.
    """

    stages: Counter[tuple[str, str]] = field(default_factory=Counter)
    ops: dict[str, set[str]] = field(default_factory=dict)
    extremes: set[str] = field(default_factory=set)
    accepted_extremes: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)
    findings: dict[str, list[Verdict]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> bool:
        """Count one program. True where it is a finding that should be saved."""
        kind = verdict.about.get("kind", "unknown")
        self.stages[kind, verdict.stage] += 1
        if "op" in verdict.about:
            self.ops.setdefault(kind, set()).add(verdict.about["op"])
        if extreme := verdict.about.get("extreme"):
            self.extremes.add(extreme)
            if verdict.stage not in ("refused", "not written", "died"):
                self.accepted_extremes.add(extreme)
        self.kernels.update(verdict.kernels)
        if not verdict.finding:
            return False
        alike = self.findings.setdefault(verdict.signature, [])
        alike.append(verdict)
        return len(alike) <= PER_FINDING

    @property
    def programs(self) -> int:
        return sum(self.stages.values())


def run(
    seeds: Iterable[int],
    *,
    folder: Path,
    native: Path | None = None,
    limit: float = 20.0,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Callable[[Results], None] = lambda _results: None,
) -> Results:
    """Check the programs of `seeds` until they or the seconds are over.

    Args:
        seeds: which programs; may be endless.
        folder: programs of findings are saved in here, each in a folder of its own.
        native: a build of the extension module to use in place of the installed one.
        limit: seconds that one program may take.
        seconds: when to stop; None: after the last seed.
        jobs: processes at once.
        progress: called after each program, by one thread at a time.
    """
    results, lock, began = Results(), threading.Lock(), time.monotonic()
    waiting = iter(seeds)

    def upcoming() -> Iterator[int]:
        while seconds is None or time.monotonic() - began < seconds:
            with lock:
                seed = next(waiting, None)
            if seed is None:
                return
            yield seed

    def work(scratch: Path) -> None:
        worker = Worker(scratch, native, limit)
        try:
            for seed in upcoming():
                verdict = worker.check(seed)
                with lock:
                    if results.add(verdict):
                        _save(folder, verdict, scratch)
                    results.seconds = time.monotonic() - began
                    progress(results)
        finally:
            worker.close()

    with tempfile.TemporaryDirectory() as scratch:
        threads = [threading.Thread(target=work, args=(Path(scratch) / str(n),)) for n in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def _save(folder: Path, verdict: Verdict, scratch: Path) -> None:
    target = folder / str(verdict.seed)
    target.mkdir(parents=True, exist_ok=True)
    for name in ("program.engine", "program.txt"):
        if (scratch / name).exists():
            shutil.copy(scratch / name, target / name)
    (target / "finding.txt").write_text(f"{verdict.about}\n{verdict.signature}\n\n{verdict.finding}\n")
