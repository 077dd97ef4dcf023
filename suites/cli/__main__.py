"""``python -m suites.cli`` is ``enginebench``."""

from suites.cli import main

main()
