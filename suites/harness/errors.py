"""Mistakes of a user of the harness: a message, never a traceback. Knows nothing of what raises them."""

from __future__ import annotations

from engine.errors import EngineError


def describe_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file could not be read, without the words of a codec."""
    return "not a text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)


class UsageError(EngineError):
    """What was asked for cannot be done as asked: the command line prints the message and exits with 2."""


class Refused(Exception):
    """A backend cannot be measured on a case; the message is the reason of the row.

    Attributes:
        status: of the row.
    """

    status = "failed"


class Unavailable(Refused):
    """The backend cannot do what the case asks for, here or at all. Backends may raise it in `prepare`."""

    status = "unavailable"
