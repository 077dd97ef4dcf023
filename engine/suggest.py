"""One sentence for an unknown name: what it was, the nearest known one, all known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, given: object, known: Iterable[str]) -> str:
    """For example ``unknown pass 'fuse_atention'; did you mean 'fuse_attention'? Known: ...``."""
    names = sorted(known)
    near = find_nearest(given, names)
    hint = f"; did you mean {near!r}?" if near is not None else "."
    return f"unknown {what} {given!r}{hint} Known: {', '.join(names) or 'none'}"


def find_nearest(given: object, known: Iterable[str]) -> str | None:
    """The name of `known` that is most like `given`, whatever their case; None if none is like it."""
    names = {name.lower(): name for name in known}
    return next((names[near] for near in difflib.get_close_matches(str(given).lower(), names, n=1)), None)
