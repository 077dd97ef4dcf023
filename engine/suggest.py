"""Writes a sentence about an unknown name: the name, the nearest known one, and all known ones or where they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, given: object, known: Iterable[str]) -> str:
    """For example ``unknown pass 'fuse_atention'; did you mean 'fuse_attention'? Known: ...``."""
    names = sorted(known)
    near = find_nearest(given, names)
    hint = f"; did you mean {near!r}?" if near is not None else "."
    return f"unknown {what} {given!r}{hint} Known: {', '.join(names) or 'none'}"


def unknown_of_many(what: str, given: object, known: Iterable[str], listing: str, most: int = 5) -> str:
    """For example ``unknown switch 'dispach'; the nearest of 300 are dispatch, ...; `enginebench list switches` lists
    all``.

    Args:
        what: kind of the names.
        given: the unknown name.
        known: the known names; too many for one message.
        listing: the command that lists them.
        most: how many of them the message has.
    """
    names = sorted(known)
    near = ", ".join(difflib.get_close_matches(str(given), names, n=most, cutoff=0.0))
    return f"unknown {what} {given!r}; the nearest of {len(names)} are {near}; `{listing}` lists all"


def find_nearest(given: object, known: Iterable[str]) -> str | None:
    """The name of `known` that is most like `given`, whatever their case; None if none is like it."""
    names = {name.lower(): name for name in known}
    return next((names[near] for near in difflib.get_close_matches(str(given).lower(), names, n=1)), None)
