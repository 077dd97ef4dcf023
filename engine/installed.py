"""What installed packages bring: objects that entry points of a group name. Imports only errors."""

from __future__ import annotations

from importlib import metadata
from typing import Any, NamedTuple

from engine.errors import ConfigError


class Installed(NamedTuple):
    """One entry point.

    Attributes:
        name, value: as its package declares them: ``value`` is ``module:object``.
        what: names it in messages.
        loaded: the object.
    """

    name: str
    value: str
    what: str
    loaded: Any


def load_installed(group: str) -> list[Installed]:
    """The objects of a group, by name of entry point; ConfigError if one fails to import."""
    found = []
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        what = f"{point.value} (entry point {point.name} of {group})"
        try:
            found.append(Installed(point.name, point.value, what, point.load()))
        except Exception as error:
            raise ConfigError(f"{what}: {type(error).__name__}: {error}; repair or uninstall its package") from error
    return found
