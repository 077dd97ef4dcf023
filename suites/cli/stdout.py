"""Replaces standard output and standard error, so that a lost reader or a missing character ends no command.

Imports nothing heavy.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_ESCAPE = "enginebench.escape"
_BLOCKS = range(0x2588, 0x2590)  # from a whole block to an eighth of one


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """As the error handler ``backslashreplace``, but a bar of blocks becomes one of ``#``."""
    if isinstance(error, UnicodeEncodeError):
        failed = error.object[error.start : error.end]
        if all(ord(character) in _BLOCKS for character in failed):
            return "".join("#" for character in failed if ord(character) <= _BLOCKS.start + 4), error.end
    return codecs.backslashreplace_errors(error)


codecs.register_error(_ESCAPE, _escape)


def outlive_readers() -> None:
    """Replace standard output and standard error by streams that outlive their readers.

    When the reader of a pipe ends, as `head` does, a command goes on without this output: it stores what it measures,
    and its exit status is the usual one. Streams that are not those of the process, as in tests, are left as they are.
    """
    for name, original in (("stdout", sys.__stdout__), ("stderr", sys.__stderr__)):
        stream = getattr(sys, name)
        if stream is original and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _replace_stream(stream))


def print_markdown(text: str) -> None:
    """Print Markdown, with references such as ``&#160;`` for characters that the encoding of the output lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.removesuffix("\n").encode(encoding, "xmlcharrefreplace").decode(encoding))


def _replace_stream(stream: io.TextIOWrapper) -> TextIO:
    """A stream to the same file with the same settings that outlives its reader.

    It escapes characters that its encoding lacks, where Python's own stream would raise an error.
    """
    try:
        stream.flush()
        raw = _OutlivingFile(stream.fileno(), "w", closefd=False)
    except OSError:  # it cannot be written, which `guard` says at the end
        return stream
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),  # as Python does with -u
        encoding=stream.encoding,
        errors=_ESCAPE if stream.errors in {"strict", "surrogateescape"} else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _OutlivingFile(io.FileIO):
    """A file that swallows what is written once nobody reads it any longer."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _discard(self.fileno())
            return memoryview(data).nbytes


def drop_output() -> None:
    """Let what is written to standard output from now on, and what is in its buffer, go nowhere."""
    _discard(sys.stdout.fileno())


def drop_errors() -> None:
    """Let what is written to standard error from now on go nowhere."""
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until the process ends


def _discard(descriptor: int) -> None:
    """Let what is written to this file descriptor from now on go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
