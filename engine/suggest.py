"""One sentence for an unknown name: what it was, the nearest known one, all known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, given: object, known: Iterable[str]) -> str:
    """For example ``unknown pass 'fuse_atention'; did you mean 'fuse_attention'? Known: ...``."""
    names = sorted(known)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown {what} {given!r}{hint} Known: {', '.join(names) or 'none'}"
