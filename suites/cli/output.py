"""What commands share: options, tables for people, JSON for machines. Knows no command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from suites.harness.errors import UsageError, describe_os_error
from suites.harness.present.table import Table


def path_option(option: str, **texts: Any) -> Any:
    """A typer option that takes a path, and refuses an empty text, which `Path` reads as the current folder."""

    def read(text: Any) -> Path:
        if not str(text):
            raise typer.BadParameter("expected a path, got an empty text")
        return Path(text)

    return typer.Option(option, parser=read, metavar="PATH", **texts)


def whole_number(option: str, least: int, most: int | None = None, *, help: str) -> Any:  # noqa: A002 - as typer calls it
    """A typer option that takes a whole number from `least` on, at most `most`."""
    return typer.Option(option, min=least, max=most, metavar="N", help=help)


def list_given_options(context: typer.Context) -> list[str]:
    """The options that the command line gives, by their first names, in the order of the help."""
    given = (one for one in context.command.params if one.param_type_name == "option" and one.name is not None)
    sources = {one.opts[0]: context.get_parameter_source(str(one.name)) for one in given}
    return [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def refuse_beside(context: typer.Context, option: str, used: Sequence[str], reason: str) -> None:
    """UsageError if the command line gives an option that would be without effect beside `option`.

    Args:
        context: of the command.
        option: the one that is given.
        used: options that have an effect beside it.
        reason: what follows its name in the message.
    """
    for other in list_given_options(context):
        if other not in (option, *used):
            raise UsageError(f"{option} {reason}, so {other} has no effect; leave out one of the two")


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ResultsOption = Annotated[
    Path | None,
    path_option(
        "--results",
        help="Results folder.",
        show_default="results/ of the checkout, if the current folder is in it; otherwise of the current folder",
    ),
]


def check_writable(path: Path) -> None:
    """UsageError if the file cannot be written. Leaves it as it is, or absent."""
    is_new = not path.exists()
    try:
        path.open("ab").close()
        if is_new:
            path.resolve().unlink(missing_ok=True)  # of a link, what it points to
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {describe_os_error(error)}") from None


def print_json(answer: Any) -> None:
    """An answer for machines."""
    print(json.dumps(answer, indent=2))


@contextmanager
def stdout_as_stderr() -> Iterator[None]:
    """What a user's model prints goes to standard error meanwhile: standard output is for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error: 180 columns wide unless it is a terminal or COLUMNS says how wide."""
    found = Console(stderr=stderr)
    return found if found.is_terminal or "COLUMNS" in os.environ else Console(width=180, stderr=stderr)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows of plain values under the names of the first one's keys."""
    printer = console()
    Table.of(rows).to_terminal(printer)
    printer.print()


def print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print rows of plain values, for machines or as a table."""
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


def count(number: int, what: str, ending: str = "s") -> str:
    """A number of things in words: ``1 case``, ``2 cases``."""
    return f"{number} {what}{'' if number == 1 else ending}"
