"""``--resume RUN``: a command goes on with an unfinished run, and takes the arguments that the run has kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from suites.harness.errors import UsageError
from suites.harness.record import lookup, store
from suites.harness.record.invocation import Invocation, read_arguments

OPTION = "--resume"
ResumeOption = Annotated[
    str | None,
    typer.Option(
        OPTION, metavar="RUN", help="Continue an unfinished run with the arguments that it has kept; takes no others."
    ),
]
"""For the help of a `Resumable` command, which never gets a value."""


class Resumable(TyperCommand):
    """A command with ``--resume RUN``. Its context has the `Invocation` as `obj`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or in the place of ``--resume RUN`` those that the run has kept."""
        is_resumed = any(word.partition("=")[0] == OPTION for word in args)
        ctx.obj = resume(str(self.name), args) if is_resumed else Invocation(str(self.name), list(args))
        return super().parse_args(ctx, list(ctx.obj.argv))


def resume(command: str, arguments: Sequence[str]) -> Invocation:
    """What continues the run that ``--resume RUN`` names. Changes to the folder in which the run was started.

    Raises:
        UsageError: there are other arguments, or the run cannot be resumed.
    """
    name = arguments[-1].removeprefix(f"{OPTION}=")
    if list(arguments) not in ([OPTION, name], [f"{OPTION}={name}"]):
        raise UsageError(f"expected {OPTION} RUN and nothing else, because the run has kept its other arguments")
    found = lookup.find_run(store.results_folder(None), name)
    run = replace(found, path=found.path.resolve())
    kept = read_arguments(run, command)
    before = [store.read(run.path.with_name(name)) for name in kept.before]
    os.chdir(kept.cwd)
    return Invocation(command, kept.argv, [*before, run])
