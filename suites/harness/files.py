"""Reading files that a user names. Knows nothing of what is in them."""

from __future__ import annotations

import errno
from pathlib import Path


def read_text_file(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read, or is a character device: some of these have no end, and would fill the memory.
        UnicodeDecodeError: it is no text in UTF-8.
    """
    if path.is_char_device():
        raise OSError(errno.EINVAL, "a device, not a file")
    return path.read_text(encoding="utf-8")
