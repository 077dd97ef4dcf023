"""What commands share: options, tables for people, JSON for machines. Knows no command."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.errors import UsageError, describe_os_error
from suites.harness.present import terminal


def path_option(option: str, what: str = "path of a file", **texts: Any) -> Any:
    """A typer option that takes a path; an empty text, which `Path` reads as the current folder, is a UsageError.

    Args:
        option: name of the option.
        what: what is expected, for the message.
        texts: `help` and `show_default` of `typer.Option`.
    """

    def read(text: Any) -> Path:
        if not str(text):
            raise UsageError(f"{option} '': expected the {what}")
        return Path(text)

    return typer.Option(option, parser=read, metavar="PATH", **texts)


def whole_number(option: str, least: int, most: int | None = None, *, help: str) -> Any:  # noqa: A002 - as typer calls it
    """A typer option that takes a whole number from `least` to `most`; other texts are a UsageError with its name."""
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: Any) -> int:
        digits = str(text)  # a default is a number already
        if not re.fullmatch("[0-9]{1,18}", digits) or int(digits) < least or (most is not None and int(digits) > most):
            limit = ", with at most 18 digits" if most is None and re.fullmatch("[0-9]{19,}", digits) else ""
            raise UsageError(f"{option} {digits!r}: expected a whole number {wanted}{limit}")
        return int(digits)

    return typer.Option(option, parser=read, metavar="N", help=f"{help} A whole number {wanted}.")


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
        "path of a folder",
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
    """Print rows of plain values under the names of the first one's keys.

    Cells wrap between words. If that is not enough, each row is a block with a line for each key.
    """
    printer = console()
    cells = [[text(value) for value in row.values()] for row in rows]
    names = list(rows[0])
    widths = terminal.choose_widths([names, *cells], printer.width)
    if widths is None:
        _print_blocks(printer, names, cells)
        return
    table = Table(box=terminal.choose_box(printer), show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in zip(names, widths, strict=True):
        table.add_column(name, overflow="fold", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    terminal.print_table(printer, table)
    printer.print()


def _print_blocks(printer: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A block for each row: its first cell, then a line for each further one."""
    for first, *others in rows:
        terminal.print_text(printer, Text(first))
        for name, cell in zip(names[1:], others, strict=True):
            terminal.print_text(printer, Text(f"{name}: {cell}"), 2)
        printer.print()


def count(number: int, what: str, ending: str = "s") -> str:
    """A number of things in words: ``1 case``, ``2 cases``."""
    return f"{number} {what}{'' if number == 1 else ending}"


def text(value: Any) -> str:
    """A plain value in a cell."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {entry}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)
