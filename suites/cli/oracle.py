"""What says whether a program fails, in a way of its own: a shell command."""

from __future__ import annotations

import json
import os
import re
import subprocess

from engine import Config
from engine.inspect.trials import Trials
from suites.harness.errors import UsageError

CANNOT_TELL = 125
"""The exit status of a command that cannot tell, as for git bisect."""
_NOT_RUN = (126, 127)


class Command:
    """A shell command, which fails where the program does. It finds the path of the program file in ``$PROGRAM``, and
    the fields of its Config, as JSON, in ``$CONFIG``.

    Args:
        line: for the shell.
        pattern: it fails if its output matches this regular expression; None: if its exit status is not 0.
        limit: seconds; a longer run fails.
    """

    def __init__(self, line: str, pattern: str | None, limit: float) -> None:
        self._line, self._limit = line, limit
        self._pattern = None if pattern is None else re.compile(pattern)
        self.label = f"{line} fails"

    def fails(self, config: Config, trials: Trials) -> bool | None:
        """As `engine.inspect.bisect.Oracle.fails`."""
        saved = trials.run("engine.inspect.observe:save", config=config.to_dict(), number=trials.count)
        if saved.kind != "done":
            return None
        environment = {**os.environ, "PROGRAM": saved.answer["path"], "CONFIG": json.dumps(config.to_dict())}
        try:
            ended = subprocess.run(  # noqa: S602  # it is what the user asks for
                self._line,
                shell=True,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._limit,
            )
        except subprocess.TimeoutExpired:
            return True
        if ended.returncode in _NOT_RUN:
            raise UsageError(f"--fails: the shell cannot run {self._line!r}: {ended.stderr.strip()}")
        if self._pattern is not None:
            return self._pattern.search(ended.stdout + ended.stderr) is not None
        return None if ended.returncode == CANNOT_TELL else ended.returncode != 0
