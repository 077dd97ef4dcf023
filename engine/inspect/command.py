"""A shell command that says whether something fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from engine.config import Config
from engine.errors import ComparisonError
from engine.inspect.trials import LIMIT_S, Trials

CANNOT_TELL = 125
"""The exit status of a command that cannot tell, as for git bisect."""
_NOT_RUN = (126, 127)


class Command:
    """A shell command, which fails where the case does.

    For `bisect` it finds the path of the program file in ``$PROGRAM``, and the fields of its Config, as JSON, in
    ``$CONFIG``; for `minify` and `replay` the path of a script in ``$SCRIPT``.

    Args:
        line: for the shell.
        pattern: it fails if its output matches this regular expression; None: if its exit status is not 0.
        limit: seconds; a longer run fails.
    """

    def __init__(self, line: str, pattern: str | None = None, limit: float = LIMIT_S) -> None:
        self.line, self.pattern, self._limit = line, pattern, limit
        self._pattern = None if pattern is None else re.compile(pattern)
        self.label = f"{line} fails"

    def fails(self, config: Config, trials: Trials) -> bool | None:
        """As `engine.inspect.bisect.Oracle.fails`."""
        saved = trials.run("engine.inspect.observe:save", config=config.to_dict(), number=trials.count)
        if saved.kind != "done":
            return None
        return self._run({"PROGRAM": saved.answer["path"], "CONFIG": json.dumps(config.to_dict())})

    def fails_script(self, path: Path) -> bool | None:
        """True if it fails for a script, None if it cannot tell. ComparisonError if the shell cannot run it."""
        return self._run({"SCRIPT": str(path)})

    def _run(self, environment: Mapping[str, str]) -> bool | None:
        try:
            ended = subprocess.run(  # noqa: S602  # it is what the user asks for
                self.line,
                shell=True,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=self._limit,
            )
        except subprocess.TimeoutExpired:
            return True
        if ended.returncode in _NOT_RUN:
            raise ComparisonError(f"the shell cannot run {self.line!r}: {ended.stderr.strip()}")
        if self._pattern is not None:
            return self._pattern.search(ended.stdout + ended.stderr) is not None
        return None if ended.returncode == CANNOT_TELL else ended.returncode != 0
