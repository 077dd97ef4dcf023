"""Versions of the file format. The engine writes the newest one and reads all that a release has written.

Each function of `UPGRADES` makes a document one of the next version, so that the reader knows the newest one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.errors import ProgramError

FORMAT = "enginebench"
VERSION = 6
"""Of the files that are written."""

Document = dict[str, Any]


def _add_scales(document: Document) -> Document:
    """From 6 on products of integers read rows that `quantize_rows` has made, with a scale that is the last input."""
    instructions = [dict(one) for one in document["instructions"]]
    for one in instructions:
        if one["attributes"].get("compute") == "int8":
            raise ProgramError(
                "precision int8_dynamic: since format version 6 it is defined otherwise; compile the model anew"
            )
        if one["op"] in ("linear", "gated_linear"):
            one["inputs"] = [*one["inputs"], None]
    return {**document, "instructions": instructions}


UPGRADES: dict[int, Callable[[Document], Document]] = {4: lambda document: document, 5: _add_scales}
"""Version -> makes the document of one program one of the next version. No release has written a version before 4. From
5 on formulas take the place of floats, too.
"""


def upgrade(document: Document) -> Document:
    """A document, of one program or of several ``entries``, as one of `VERSION`. ProgramError for an unknown version,
    or for entries of another version than the file.
    """
    version = document.get("version")
    if "entries" in document:
        entries = {name: upgrade(entry) for name, entry in document["entries"].items()}
        if any(entry.get("version") != version for entry in document["entries"].values()):
            raise ProgramError(f"entries of other format versions than the file, which has {version!r}")
        return {**document, "version": VERSION, "entries": entries}
    while type(version) is not int or version != VERSION:
        if type(version) is not int or version not in UPGRADES:
            raise ProgramError(f"format version {version!r}; this engine reads {min(UPGRADES)} to {VERSION}")
        document = UPGRADES[version](document)
        version += 1
    return {**document, "version": VERSION}
