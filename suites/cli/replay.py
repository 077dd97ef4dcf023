"""``enginebench replay``: a failure that somebody has kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.inspect.capsule import replay
from suites.cli import failing
from suites.cli.output import console
from suites.harness.present.terminal import write_paragraph


def command(
    capsule: Annotated[Path, typer.Argument(help="What minify has written.")],
    allow_command: Annotated[
        bool, typer.Option("--allow-command", help="Run the script or the shell command in it, if it has one.")
    ] = False,
    limit: failing.LimitOption = failing.LIMIT,
) -> None:
    """Run a capsule, and say whether it still fails. Ends with status 1 if it does.

    A case of the engine is data and runs without torch. Other cases are scripts, which run only if you allow it.
    """
    with failing.as_usage_errors():
        found = replay(capsule, limit, allow_command=allow_command)
    for line in str(found).splitlines():
        write_paragraph(console(), line)
    raise typer.Exit(int(found.fails))
