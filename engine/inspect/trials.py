"""Trials in processes of their own: a crash is an outcome, a hang is one after a limit, and nothing stays behind.

A server process imports torch and the engine, loads the case, and forks for each trial (`engine.inspect.forking`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Self

from engine.errors import EngineError

Kind = Literal["done", "error", "crash", "hang"]
LIMIT_S = 60.0
"""Seconds after which a trial hangs, unless somebody says otherwise."""


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Attributes:
        kind: ``done``; ``error``, an exception; ``crash``, a signal or an exit; ``hang``, longer than the limit.
        answer: what the task returned; empty unless it is done.
        text: class and text of the exception, name of the signal, or the limit.
    """

    kind: Kind
    answer: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def signature(self) -> tuple[str, str]:
        """Equal for the same failure: of an exception its class and first line, without names and numbers in it."""
        first = self.text.partition("\n")[0]
        return self.kind, re.sub(r"'[^']*'|%\w+|0x[0-9a-f]+|\d+", "#", first) if self.kind == "error" else first

    def __str__(self) -> str:
        words = {"crash": f"the process ended by {self.text}", "hang": f"no end within {self.text}"}
        return words.get(self.kind, self.text.partition("\n")[0])


class Trials:
    """A context manager that runs tasks on the case in `folder`, which `engine.inspect.observe.save_case` has written.

    Args:
        folder: of the case. ``trials.jsonl`` in it has the outcome of each trial: what has run is not run again.
        setup: modules, or paths of Python files, that are imported before the case is loaded. A function
            ``prepare_trials`` of one is called.
        limit: seconds of a trial.
        observe: called after each trial that runs, with the number of trials so far.
    """

    def __init__(
        self,
        folder: Path,
        setup: Sequence[str] = (),
        limit: float = LIMIT_S,
        observe: Callable[[int], None] | None = None,
    ) -> None:
        self.count = 0
        self._folder, self._setup, self._limit, self._observe = folder, setup, limit, observe
        self._server: subprocess.Popen[str] | None = None
        self._known: dict[str, Outcome] = {}
        self._record: IO[str] | None = None

    def __enter__(self) -> Self:
        path = self._folder / "trials.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            key, outcome = json.loads(line)
            self._known[key] = Outcome(**outcome)
        self._record = path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_error: object) -> None:
        if self._record is not None:
            self._record.close()
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)  # and a trial that runs
            self._server.communicate()

    def run(self, task: str, **given: Any) -> Outcome:
        """The outcome of ``module:function``, which is called with the `Case` and `given`, and returns a dict.

        What it takes and returns is JSON.

        Raises:
            EngineError: the case could not be loaded.
        """
        key = json.dumps([task, given], sort_keys=True)
        if key not in self._known:
            self._known[key] = outcome = self._ask({"task": task, "given": given, "limit": self._limit})
            self.count += 1
            if self._observe is not None:
                self._observe(self.count)
            if self._record is not None:
                self._record.write(json.dumps([key, asdict(outcome)]) + "\n")
                self._record.flush()
        return self._known[key]

    def _ask(self, request: dict[str, Any]) -> Outcome:
        if self._server is None:
            command = [sys.executable, "-P", "-m", "engine.inspect.forking", str(self._folder), *self._setup]
            paths = os.pathsep.join(filter(None, sys.path))
            # Threads that a library starts when it is imported would not be there in a fork.
            environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            with (self._folder / "stderr").open("w") as stderr:
                self._server = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    env=environment,
                    start_new_session=True,
                )
        server = self._server
        assert server.stdin is not None  # noqa: S101  (they are pipes)
        assert server.stdout is not None  # noqa: S101
        try:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            line = server.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            *_, last = ["it gave no reason", *(self._folder / "stderr").read_text().strip().splitlines()]
            raise EngineError(f"the process of trials has ended: {last}")
        return Outcome(**json.loads(line))


def name_signal(number: int) -> str:
    """Such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
