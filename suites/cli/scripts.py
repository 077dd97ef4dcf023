"""What the scripts of tables share: models named on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from engine.errors import EngineError
from suites import models


def chosen_models(description: str | None, default: Iterable[str]) -> list[str]:
    """Names from the command line, or `default`. An unknown one ends the script with the nearest known name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="see `enginebench list models`; also path.py:factory")
    names: list[str] = parser.parse_args().model
    for name in names:
        try:
            models.get(name)
        except EngineError as e:
            parser.error(str(e))
    return names or list(default)
