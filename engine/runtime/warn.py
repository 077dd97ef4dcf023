"""Warnings to the user: where they point to, and which appear once per process. Knows no program."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

_ENGINE = str(Path(__file__).parents[1])
_ISSUED: set[type[Warning]] = set()


def warn(message: str, category: type[Warning], *, once: bool = False) -> None:
    """Issue a warning that points to the line that called the engine.

    Args:
        message: what is wrong and what to do.
        category: a class of `engine.errors`.
        once: issue only the first warning of this category in the process.
    """
    if once and category in _ISSUED:
        return
    _ISSUED.add(category)
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
