"""Reading and writing text files that a user names. Knows nothing of what is in them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from suites.harness.errors import UsageError, describe_os_error

_STREAMS = ("/dev", "/dev/fd", "/proc/self/fd")
"""Folders whose files are open streams, such as standard output, or devices."""


def resolve_links(path: Path) -> Path:
    """As `Path.resolve`, but a circle of links stays as it is, for which `resolve` raises before Python 3.13."""
    return Path(os.path.realpath(path))


def read_text_file(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read, or is a character device: some of these have no end, and would fill the memory.
        UnicodeDecodeError: it is no text in UTF-8.
    """
    if path.is_char_device():
        raise OSError(errno.EINVAL, "a device, not a file")
    return path.read_text(encoding="utf-8")


def write_text_file(path: Path, text: str) -> None:
    """Write a text file in UTF-8, and make its folder. If that fails, an earlier file keeps its content.

    The text is written beside the file, which is then replaced. The new file has the mode of the earlier one. If `path`
    is a link, its target is replaced. Streams, devices, and files in folders where this user may create
    no file are written in place.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        data = text.encode(errors="backslashreplace")  # halves of characters, as in names of files that are no text
        target = resolve_links(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file():
            target.open("ab").close()  # raises the error of a file that must not be written to
        is_special = str(path.absolute().parent) in _STREAMS or (path.exists() and not path.is_file())
        if is_special or (target.exists() and not os.access(target.parent, os.W_OK | os.X_OK)):
            path.write_bytes(data)
            return
        _replace_file(target, data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {describe_os_error(error)}") from None


def _replace_file(path: Path, data: bytes) -> None:
    """Write a file in a new folder beside its place, where its name cannot be too long, and rename it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        written = Path(folder) / path.name
        written.write_bytes(data)
        if path.exists():
            earlier = path.stat()
            with contextlib.suppress(OSError):  # only root may give a file to another user
                os.chown(written, earlier.st_uid, earlier.st_gid)
            written.chmod(stat.S_IMODE(earlier.st_mode))
        written.replace(path)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text in TOML.

    Raises:
        ValueError: it is not valid TOML, or Python cannot read it.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
