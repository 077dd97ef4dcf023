"""Arguments of calls that describe a program or copy it, checked by name. Knows no program."""

from __future__ import annotations

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


def refuse_to_copy(value: Any, advice: str) -> NoReturn:
    """TypeError that says why `value` cannot be pickled or copied, and `advice`: what to do instead."""
    name = type(value).__name__
    raise TypeError(f"a {name} holds memory of the machine: it cannot be pickled or copied; {advice}")
