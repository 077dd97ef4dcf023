"""Mistakes of a user of the harness: a message, never a traceback. Knows nothing of what raises them."""

from __future__ import annotations

import os
import re
import shutil

from engine.errors import EngineError


def describe_os_error(error: OSError) -> str:
    """Why an operation on a file failed, without its path where the system gives a reason; never empty."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        reason = str(error.args[0][0][-1])  # of a copy of several files: the first one that failed, as a text
        number = re.match(r"\[Errno (\d+)\]", reason)
        return os.strerror(int(number[1])) if number is not None else reason
    return error.strerror or str(error) or type(error).__name__


def describe_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file could not be read, without the words of a codec."""
    return "not a text in UTF-8" if isinstance(error, UnicodeDecodeError) else describe_os_error(error)


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
