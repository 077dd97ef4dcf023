"""Where this package lies. Imports nothing, so that every module may import it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
"""The folder of the package `suites`."""
IMPORTED_FROM = PACKAGE.parent
"""The folder on `sys.path` that holds it: the root of the checkout, or site-packages."""
