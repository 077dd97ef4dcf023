"""Standard output and standard error when nobody reads them any longer. Imports nothing heavy."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def drop_output() -> None:
    """Let what is written to standard output from now on, and what is in its buffer, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def drop_errors() -> None:
    """Let what is written to standard error from now on go nowhere."""
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
