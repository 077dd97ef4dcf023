"""Mistakes of a user of the harness: a message, never a traceback. Knows nothing of what raises them."""

from __future__ import annotations

from engine.errors import EngineError


class UsageError(EngineError):
    """What was asked for cannot be done as asked: the command line prints the message and exits with 2."""
