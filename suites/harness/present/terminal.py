"""What tables on a terminal share: rules, bars and intervals; in ASCII where other characters cannot be written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD, Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from suites.harness.record.reasons import remove_escapes
from suites.harness.record.schema import Speed

_ASCII_HEAD = Box(
    "    \n"
    "    \n"
    " -- \n"
    "    \n"
    "    \n"
    "    \n"
    "    \n"
    "    \n",
    ascii=True,
)  # fmt: skip
_GAP = 2
"""Characters between two columns: the padding of a cell, and the box's own."""
_FARTHEST = 16.0
"""Longest axis of factors: an interval beyond it is cut."""
_EIGHTHS = ("", *"\u258f\u258e\u258d\u258c\u258b\u258a\u2589")


def is_ascii(console: Console) -> bool:
    """True if the output cannot show other characters than ASCII."""
    return console.options.ascii_only


def is_plain(console: Console) -> bool:
    """True if the output has no styles, so that nothing is bold."""
    return console.color_system is None


def measure_width(console: Console, table: Table) -> int:
    """Columns that a table needs if nothing in it is wrapped."""
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


class _Stripped:
    """A table whose lines have no blanks at their ends."""

    def __init__(self, table: Table, indent: int) -> None:
        self._table = Padding(table, (0, 0, 0, indent), expand=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._table, options, pad=False):
            while line:
                text, style, control = line.pop()
                if kept := text.rstrip():
                    line.append(Segment(kept, style, control))
                    break
            yield from (one if one.control else Segment(remove_escapes(one.text), one.style) for one in line)
            yield Segment.line()


def choose_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Widths of the columns of a table that breaks no word; None if there is no room for the longest words.

    The widest column that can give way is narrowed first. Rich narrows columns without regard to their longest words,
    and then breaks those or cuts them off.

    Args:
        rows: texts of the cells, headings first.
        width: characters for the table, which has padding of one character at the right of each cell.
    """
    columns = list(zip(*rows, strict=True))
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    widths, room = [max(map(len, column)) for column in columns], width - _GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i, one in enumerate(widths) if one > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def print_table(console: Console, table: Table, indent: int = 0) -> None:
    """Print a table `indent` columns from the left, without blanks at the ends of its lines.

    Texts of records may have escape sequences of terminals, which are left out.
    A table of cells that do not wrap and that is too wide becomes a block for each row, so that nothing is cut off.
    """
    if all(column.no_wrap for column in table.columns) and measure_width(console, table) + indent > console.width:
        _print_blocks(console, table, indent)
    else:
        console.print(_Stripped(table, indent), end="")


def _print_blocks(console: Console, table: Table, indent: int) -> None:
    """The first cell of each row, then a line for each further one and for the cells without a heading that follow."""
    headings = [str(column.header) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        print_text(console, Text.assemble(_to_text(first)), indent)
        line = Text()
        for heading, cell in zip(headings[1:], map(_to_text, others), strict=True):
            if heading and line:
                print_text(console, line, indent + 2)
                line = Text()
            if cell:
                line = (
                    Text.assemble(line, "  ", cell) if line else Text.assemble(f"{heading}: " if heading else "", cell)
                )
        if line:
            print_text(console, line, indent + 2)


def print_text(console: Console, text: Text, indent: int = 0) -> None:
    """Print text `indent` columns from the left, wrapped between words, without blanks at the ends of its lines.

    Texts of records may have escape sequences of terminals, which are left out.
    """
    if (plain := remove_escapes(text.plain)) != text.plain:
        text = Text(plain, text.style)
    for line in text.wrap(console, max(console.width - indent, 1), overflow="fold"):
        indented = Text(" " * indent) + line
        indented.rstrip()
        console.print(indented, soft_wrap=True, highlight=False)


def _to_text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def choose_box(console: Console) -> Box:
    """One rule below the headings."""
    return _ASCII_HEAD if is_ascii(console) else SIMPLE_HEAD


def draw_bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar of blocks for a share of 1, which is `width` characters: to an eighth of a character, or whole ``#``."""
    share = max(0.0, min(1.0, share))
    if ascii_only:
        return "#" * max(1, round(share * width))
    eighths = max(1, round(share * width * 8))
    return "\u2588" * (eighths // 8) + _EIGHTHS[eighths % 8]


def draw_interval(speed: Speed, reach: float, width: int, *, ascii_only: bool = False) -> str:
    """A factor and its 95% interval on a logarithmic axis with 1 in the middle: ``      |  --o--   ``.

    Args:
        speed: the factor.
        reach: the axis goes from 1 / reach to reach; what lies outside is drawn at its end as an arrow.
        width: characters, odd.
        ascii_only: draw it with ``|``, ``-`` and ``o``.
    """
    axis, line, point = ("|", "-", "o") if ascii_only else ("\u2502", "\u2500", "\u25cf")
    half = width // 2
    low, value, high = (half + math.log(x) / math.log(reach) * half for x in (speed.low, speed.value, speed.high))
    cells = [" "] * width
    cells[half] = axis
    for place in range(max(0, round(low)), min(width - 1, round(high)) + 1):
        cells[place] = line
    if low <= half <= high:
        cells[half] = "+" if ascii_only else "\u253c"
    if round(low) < 0:
        cells[0] = "<"
    if round(high) > width - 1:
        cells[-1] = ">"
    cells[min(max(round(value), 0), width - 1)] = point
    return "".join(cells)


def choose_reach(speeds: list[Speed], *, least: float = 1.1) -> float:
    """The end of an axis of factors that shows these intervals, between `least` and `_FARTHEST`."""
    ends = [max(one.high, 1 / one.low) for one in speeds] or [least]
    return min(_FARTHEST, max(least, *ends)) ** 1.02
