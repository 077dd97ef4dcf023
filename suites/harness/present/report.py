"""A report: paragraphs and tables in order, for a terminal and as Markdown. Knows no record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console

from suites.harness.present import markdown
from suites.harness.present.table import Table
from suites.harness.present.terminal import write_paragraph

GUIDE = "docs/reading-results.md"
"""The page that explains every word of a table."""


@dataclass(frozen=True)
class Paragraph:
    """A text between tables.

    Attributes:
        text: what it says; with `guide`, a sentence without its end.
        style: of rich on a terminal; ``bold`` also in Markdown, and for titles, which follow an empty line.
        is_note: an item of a list in Markdown.
        guide: the page that explains the words.
        details: as of a `Table`. Only such a text has names in backquotes.
    """

    text: str
    style: str = ""
    is_note: bool = False
    guide: str = ""
    details: str = ""


Part = Paragraph | Table


def print_report(console: Console, parts: Sequence[Part], *, with_details: bool = False) -> None:
    """Print the parts, and with `with_details` the details too."""
    shown = [part for part in parts if with_details or not part.details]
    for before, part in zip([None, *shown], shown, strict=False):
        if isinstance(part, Table):
            if isinstance(before, Table):
                console.print()
            part.to_terminal(console)
            continue
        if part.style == "bold" and before is not None:
            console.print()
        text = part.text.replace("`", "") if part.details else part.text
        if part.guide:
            more = "" if with_details else " All numbers: enginebench show RUN --details."
            text += f". Every word: {part.guide}.{more}"
        write_paragraph(console, text, style=part.style)


def write_markdown(parts: Sequence[Part], link: Callable[[str], str] = str) -> str:
    """The parts, with the details folded away.

    Args:
        parts: of the report.
        link: path of a page in the repository -> the link to it from the page that will have the text.
    """
    blocks: list[str] = []
    for before, part in zip([None, *parts], parts, strict=False):
        if isinstance(part, Table):
            text = part.to_markdown()
        elif part.guide:
            text = f"{markdown.escape(part.text)} ([every word explained]({link(part.guide)}))."
        else:
            text = markdown.escape(part.text)
            text = f"**{text}**" if part.style == "bold" else f"- {text}" if part.is_note else text
        if part.details:
            text = f"<details><summary>{part.details}</summary>\n\n{text}\n\n</details>"
        if isinstance(part, Paragraph) and part.is_note and isinstance(before, Paragraph) and before.is_note:
            blocks[-1] += f"\n{text}"
        else:
            blocks.append(text)
    return "\n\n".join(blocks) + "\n"
