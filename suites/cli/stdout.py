"""Standard output when nobody reads it any longer. Imports nothing heavy."""

from __future__ import annotations

import os
import sys


def drop_output() -> None:
    """Let what is written to standard output from now on, and what is in its buffer, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
