"""Says why a file cannot be read as a program: it is of another kind, or an entry of it is damaged.

Knows bytes and exceptions; knows nothing of programs.
"""

from __future__ import annotations

import json
import stat

EXPECTED = "expected a file that the save method of a program or a decoder wrote"
"""What every message about a foreign file ends with."""

_LEAST_BYTES = 8  # the length of the header; the first bytes of one can be letters

# First bytes of a file -> what it is.
_KINDS = {
    b"PK\x03\x04": "a zip archive, such as torch.save and torch.export.save write",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"GGUF": "a GGUF file, which holds weights and no program",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"\x1f\x8b": "a gzip archive",
    b"\x7fELF": "an executable or a library",
}

# Beginnings of messages of Python about values of the wrong type or length.
_OF_PYTHON = ("not enough values", "too many values", "zip()", "invalid literal", "could not convert", "cannot convert")
_OUT_OF_RANGE = "a number in the header is out of range"
_WRONG_TYPE = "an entry of the header has another type or length than expected"

# Exception -> what it says about a header. The first row that fits counts.
_FAULTS: tuple[tuple[type[BaseException], str], ...] = (
    (json.JSONDecodeError, "the header is no JSON document"),
    (UnicodeError, "the header has characters that are no text in UTF-8"),
    (RecursionError, "the header is nested too deeply"),
    (TypeError, _WRONG_TYPE),
    (AttributeError, _WRONG_TYPE),
    (IndexError, "the header refers to an entry that it does not have"),
    (SyntaxError, "a name in the header is no name of Python"),
    (ArithmeticError, _OUT_OF_RANGE),
)


def describe_special(mode: int) -> str:
    """What has the mode `mode` and is no regular file: ``a folder``, ``a pipe``, ``a device`` or ``a socket``."""
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((kind for is_kind, kind in kinds if is_kind(mode)), "a device")


def has_magic(start: bytes) -> bool:
    """True if `start`, the first bytes of a file, are those of a kind of file that is known here."""
    return start.startswith(tuple(_KINDS))


def describe_foreign(start: bytes, size: int) -> str:
    """What a file is whose first bytes are `start`, if it is no safetensors file; one sentence.

    Args:
        start: the first bytes of the file, 9 or more if it has that many.
        size: bytes of the file.
    """
    kind = next((kind for magic, kind in _KINDS.items() if start.startswith(magic)), None)
    if not size:
        kind = "an empty file"
    elif size < _LEAST_BYTES:
        count = "1 byte" if size == 1 else f"{size} bytes"
        kind = f"a file of {count}, too short for the header of a safetensors file"
    elif kind is None and _is_text(start):
        kind = "a text file"
    if kind is None:
        kind = f"a file of {size} bytes that does not begin with the header of a safetensors file"
    return f"not an engine file: it is {kind}; {EXPECTED}"


def _is_text(start: bytes) -> bool:
    """True if `start` has only characters that texts have; a character that the end cuts off does not count."""
    text = start.decode("utf-8", errors="ignore")
    complete = len(text.encode()) > len(start) - 4
    return complete and all(character.isprintable() or character in "\t\r\n" for character in text)


def describe_fault(error: BaseException) -> str:
    """What is wrong with a header, from the exception that it caused. Python's own wording is not shown."""
    text = str(error)
    if isinstance(error, KeyError):
        key = error.args[0] if error.args else ""
        is_sentence = isinstance(key, str) and " " in key
        return (
            key if is_sentence else f"the header has no entry {key!r}, or an entry names {key!r}, which does not exist"
        )
    if isinstance(error, ValueError) and text.startswith(_OF_PYTHON):
        return _WRONG_TYPE
    if isinstance(error, ValueError) and text.startswith("Exceeds the limit"):  # of digits that Python reads
        return _OUT_OF_RANGE
    return next((fault for kind, fault in _FAULTS if isinstance(error, kind)), text or type(error).__name__)
