"""Arguments of calls that describe a program or copy it, checked by name. Knows no program."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from engine.errors import ConfigError
from engine.targets.tuned import TuningOptions


def check_profile(runs: Any, roofs: Any) -> None:
    """ConfigError unless `runs` is a whole number of at least 1 and `roofs` a truth value."""
    if type(runs) is not int or runs < 1:
        raise ConfigError(f"profile: runs: expected a whole number from 1 on, got {runs!r}")
    if not isinstance(roofs, bool):
        raise ConfigError(f"profile: roofs: expected True or False, got {roofs!r}")


def tuning_options(rounds: Any, folder: Any) -> TuningOptions:
    """The options of `Program.tune`. ConfigError unless `rounds` is a whole number from 1 on and `folder` a path."""
    if type(rounds) is not int or rounds < 1:
        raise ConfigError(f"tune: rounds: expected a whole number from 1 on, got {rounds!r}")
    if folder is not None and not isinstance(folder, str | Path):
        raise ConfigError(f"tune: folder: expected a path, got {folder!r}")
    return TuningOptions(rounds, None if folder is None else Path(folder))


def positions_of(keep: Iterable[int] | None, count: int) -> frozenset[int]:
    """The positions that `keep`, the argument of `trace`, lists; none for None.

    Raises ConfigError if `keep` is no iterable of whole numbers, or has a position from `count` on or below 0.
    """
    if keep is None:
        return frozenset()
    try:
        positions = frozenset(_whole_number(position) for position in keep)
    except TypeError:
        raise ConfigError(f"trace: keep: expected positions of nodes, such as [0, 3], got {keep!r}") from None
    for position in sorted(positions):
        if not 0 <= position < count:
            nearest = f"the nearest is {0 if position < 0 else count - 1}" if count else "there are none"
            raise ConfigError(
                f"trace: keep: no node has the position {position}; the trace has {count} nodes, and {nearest}"
            )
    return positions


def _whole_number(value: Any) -> int:
    """`value` as an int. TypeError if it is a truth value or no whole number."""
    if isinstance(value, bool):
        raise TypeError(value)
    return operator.index(value)


def refuse_to_copy(value: Any, advice: str) -> NoReturn:
    """TypeError that says why `value` cannot be pickled or copied, and `advice`: what to do instead."""
    name = type(value).__name__
    raise TypeError(f"a {name} holds memory of the machine: it cannot be pickled or copied; {advice}")
