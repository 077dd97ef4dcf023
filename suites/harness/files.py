"""Reading files that a user names. Knows nothing of what is in them."""

from __future__ import annotations

import errno
import tomllib
from pathlib import Path
from typing import Any


def read_text_file(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read, or is a character device: some of these have no end, and would fill the memory.
        UnicodeDecodeError: it is no text in UTF-8.
    """
    if path.is_char_device():
        raise OSError(errno.EINVAL, "a device, not a file")
    return path.read_text(encoding="utf-8")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text in TOML.

    Raises:
        ValueError: it is not valid TOML, or Python cannot read it; the message is the reason, without Python's advice.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit, which its message advises to raise
        raise ValueError("a number has too many digits") from None
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
