"""Where this package lies, and what it keeps for a user. Imports nothing, so that every module may import it."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).parent
"""The folder of the package `suites`."""
IMPORTED_FROM = PACKAGE.parent
"""The folder on `sys.path` that holds it: the root of the checkout, or site-packages."""


def user_cache() -> Path:
    """The folder of what can be made or fetched again. Not created here."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "enginebench"
