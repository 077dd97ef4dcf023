"""A table: columns and cells once, for a terminal and as Markdown. Knows no report.

On a terminal that is too narrow, the columns of the highest level are left out first. If that is not enough, texts are
broken where they may be, and columns move together. If that is not enough either, each row is a block of lines, so that
nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from rich.console import Console
from rich.text import Text

from suites.harness.present import markdown
from suites.harness.present.terminal import ASCII, is_ascii, write_paragraph
from suites.harness.record.reasons import remove_escapes

BREAK = "\N{ZERO WIDTH SPACE}"
"""Stands where a text may be broken although it has no blank there; a line end may be a blank instead."""
BEST = "best"
"""Style of the best cells: bold, or followed by `STAR` where an output shows nothing in bold."""
STAR = "*"
_GAP = 2
"""Blanks between two columns, where there is enough width."""


@dataclass(frozen=True)
class Column:
    """What holds for the cells of a column.

    Attributes:
        header: its heading; of cells that belong to those before, none.
        align: of heading and cells.
        level: 0 is always shown.
        wraps: may be broken at every blank.
        is_code: names in code, for Markdown.
        is_drawing: a drawing of characters, for terminals only.
    """

    header: str = ""
    align: Literal["left", "right"] = "left"
    level: int = 0
    wraps: bool = False
    is_code: bool = False
    is_drawing: bool = False


@dataclass(frozen=True)
class Cell:
    """A text with a style of rich, or `BEST`."""

    text: str
    style: str = ""


class Table:
    """Rows of cells below headings.

    Args:
        columns: from left to right.
        has_rule: draw a line below the headings on a terminal.
        details: title of the details that the table belongs to, which are shown on demand; "" for other tables.
    """

    def __init__(self, columns: Sequence[Column], *, has_rule: bool = True, details: str = "") -> None:
        self.columns = columns
        self.rows: list[tuple[list[Cell], str]] = []
        self.details = details
        self._has_rule = has_rule

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """A table of plain values, which wrap, under the keys of the first row; ``kernel`` has names in code."""
        made = cls([Column(name, wraps=True, is_code=name == "kernel") for name in rows[0]])
        for row in rows:
            made.add(*map(_write_value, row.values()))
        return made

    def add(self, *cells: Cell | str, style: str = "") -> None:
        """Add a row; a style ``dim`` is italics in Markdown. Escape sequences, which records may have, are left out."""
        made = [one if isinstance(one, Cell) else Cell(one) for one in cells]
        self.rows.append(([Cell(remove_escapes(one.text), one.style) for one in made], style))

    def to_terminal(self, console: Console, indent: int = 0) -> None:
        """Print the table without blanks at the ends of its lines, `indent` columns from the left."""
        levels = sorted({column.level for column in self.columns}, reverse=True)
        for level, folds_headings, folds_cells, gap in [
            *((level, False, False, _GAP) for level in levels),
            (0, True, False, _GAP),
            (0, True, True, _GAP),
            (0, True, True, 1),
        ]:
            columns = [column for column in self.columns if column.level <= level]
            lines = self._write(console, columns, folds_headings=folds_headings, folds_cells=folds_cells)
            widths = _choose_widths(columns, lines, console.width - indent, gap, wraps=folds_cells)
            if widths is not None:
                break
        else:
            _print_blocks(console, self._write(console, columns), indent)
            return
        if any(column.header for column in columns):
            _print_line(console, columns, lines[0], widths, indent, gap, is_heading=True)
            if self._has_rule:
                rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(widths) + gap * (len(widths) - 1))
                write_paragraph(console, rule.translate(ASCII) if is_ascii(console) else rule, indent=indent)
        for line in lines[1:]:
            _print_line(console, columns, line, widths, indent, gap)

    def _write(
        self, console: Console, columns: Sequence[Column], *, folds_headings: bool = False, folds_cells: bool = False
    ) -> list[list[Text]]:
        """Headings and rows as texts, which are broken where they may be, or nowhere."""
        is_plain = console.color_system is None
        places = [place for place, column in enumerate(self.columns) if column in columns]
        starred = {place for place in places if is_plain and any(row[place].style == BEST for row, _ in self.rows)}

        def make(text: str, style: str, *, folds: bool) -> Text:
            text = text.replace(BREAK, "\n") if folds else _unfold(text)
            return Text(text.translate(ASCII) if is_ascii(console) else text, style)

        style = "" if self._has_rule else "dim"
        lines = [[make(column.header, style, folds=folds_headings) for column in columns]]
        for row, style in self.rows:
            line = []
            for place in places:
                cell = row[place]
                star = (STAR if cell.style == BEST else " ") if place in starred else ""
                own = "bold" if cell.style == BEST else cell.style
                line.append(make(cell.text + star, f"{style} {own}".strip(), folds=folds_cells))
            lines.append(line)
        return lines

    def to_markdown(self) -> str:
        """The table, with the best cells in bold. Cells of columns that do not wrap have blanks that do not break."""
        shown = [place for place, column in enumerate(self.columns) if not column.is_drawing]
        lines = [[_keep_together(self.columns[place].header, self.columns[place]) for place in shown]]
        for row, style in self.rows:
            lines.append([_write_markdown(row[place], self.columns[place], is_dim=style == "dim") for place in shown])
        return markdown.pipes(lines, "".join(self.columns[place].align[0] for place in shown))


def _unfold(text: str) -> str:
    return text.replace(BREAK, "").replace("\n", " ")


def _keep_together(text: str, column: Column) -> str:
    """A text for Markdown, which a browser does not break unless the column wraps."""
    return _unfold(text) if column.wraps else _unfold(text).replace(" ", "\N{NO-BREAK SPACE}")


def _write_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {entry}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _write_markdown(cell: Cell, column: Column, *, is_dim: bool) -> str:
    if not cell.text:
        return ""
    if column.is_code:
        return f"`{_unfold(cell.text)}`"
    text = markdown.escape(_keep_together(cell.text, column))
    text = f"**{text}**" if cell.style == BEST else text
    return f"*{text}*" if is_dim else text


def _choose_widths(
    columns: Sequence[Column], lines: Sequence[Sequence[Text]], width: int, gap: int, *, wraps: bool
) -> list[int] | None:
    """The width of each column; None if they do not fit. The widest column that may be broken is narrowed first."""
    texts = [[part for text in column for part in text.plain.split("\n")] for column in zip(*lines, strict=True)]
    widths = [max(Text(part).cell_len for part in parts) for parts in texts]
    least = [
        max((Text(word).cell_len for part in parts for word in part.split()), default=0)
        if wraps and column.wraps
        else full
        for column, parts, full in zip(columns, texts, widths, strict=True)
    ]
    most = width - gap * (len(widths) - 1)
    if sum(least) > most:
        return None
    while sum(widths) > most:
        widest = max((place for place, one in enumerate(widths) if one > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _print_line(
    console: Console,
    columns: Sequence[Column],
    cells: Sequence[Text],
    widths: Sequence[int],
    indent: int,
    gap: int,
    *,
    is_heading: bool = False,
) -> None:
    """Print a row; its cells stand at the top, and headings at the bottom."""
    wrapped = [cell.wrap(console, max(width, 1), overflow="fold") for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, wrapped))
    for number in range(height):
        line = Text(" " * indent)
        for column, parts, width in zip(columns, wrapped, widths, strict=True):
            place = number - height + len(parts) if is_heading else number
            part = parts[place] if 0 <= place < len(parts) else Text()
            part.align(column.align, width)
            line.append_text(part).append(" " * gap)
        line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)


def _print_blocks(console: Console, lines: Sequence[Sequence[Text]], indent: int) -> None:
    """Print the first cell of each row, and below it the others with their headings, as many on a line as fit.

    A cell without a heading follows the one before.
    """
    for line in lines[1:]:
        items: list[Text] = []
        for heading, cell in zip(lines[0], line, strict=True):
            cell.rstrip()
            if heading or not items:
                items.append(Text(f"{heading.plain}: " if items else ""))
            if cell:
                gap = "" if items[-1].plain.endswith(": ") or not items[-1] else " " * _GAP
                items[-1].append(gap).append_text(cell)
        items[0].stylize("bold")
        write_paragraph(console, items[0], indent=indent)
        shown = [item for item in items[1:] if not item.plain.endswith(": ")]
        while shown:
            text = shown.pop(0)
            while shown and text.cell_len + _GAP + shown[0].cell_len <= console.width - indent - _GAP:
                text.append(" " * _GAP).append_text(shown.pop(0))
            write_paragraph(console, text, indent=indent + _GAP)
