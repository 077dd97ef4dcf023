"""An overview as Markdown: for pages of the documentation and README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from suites.harness.present import markdown
from suites.harness.present.overview import BEST_OTHER, Line, Overview, Time
from suites.harness.record.schema import Environment

_Column = TypeVar("_Column")


def write_markdown(overview: Overview, environment: Environment, guide: str) -> str:
    """The machine, the table, how often the engine is first, notes, and all versions.

    Args:
        overview: what to write.
        environment: of the run.
        guide: link to the page that explains the words, from the page that will have the text.
    """
    has_marks = any(line.marks for line in overview.lines)
    headings = ["case"]  # the answer comes first: a narrow page hides what is on the right
    for heading in overview.leads:
        headings += [heading, ""]
    first_time = len(headings) + 1
    headings += ["", *_engine_first(overview.columns), "A/A floor", *([""] if has_marks else [])]
    headings = [_keep_together(heading) for heading in headings]
    lines = [headings, *(_write_line(line, has_marks=has_marks) for line in overview.lines)]
    table = markdown.pipes(lines, align=" " * first_time + "r" * len(overview.columns))
    legend = "Median latency of a call, lower is better, the fastest in bold"
    if BEST_OTHER in overview.leads:
        legend += (
            f". {BEST_OTHER}: speed of the engine against the fastest other backend, with its 95% interval; "
            "above 1 the engine is faster"
        )
    notes = "".join(f"- {_escape(note)}\n" for note in overview.notes)
    parts = [
        f"{overview.heading}.",
        table,
        f"**{overview.closing}**" if overview.closing else "",
        f"{legend} ([every word explained]({guide})).",
        notes,
        _versions(environment),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _versions(environment: Environment) -> str:
    return f"<details><summary>Machine and versions</summary>\n\n{markdown.heading(environment)}\n\n</details>"


def _engine_first(columns: Sequence[_Column]) -> list[_Column]:
    """Columns in the order of a page: an overview has the engine last."""
    return [*columns[-1:], *columns[:-1]]


def _keep_together(text: str) -> str:
    """Text that a browser does not break: on a page as wide as most, every case is one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _write_line(line: Line, *, has_marks: bool) -> list[str]:
    name = _keep_together(line.name)
    cells = [_doubt(name, line)]
    for lead in line.leads:
        speed = _keep_together(f"{lead.value} {lead.interval}".strip())
        cells += [_doubt(speed, line), _doubt(lead.verdict, line)]
    cells += [line.unit, *map(_write_time, _engine_first(line.times))]
    return [*cells, line.floor, *([line.marks] if has_marks else [])]


def _doubt(text: str, line: Line) -> str:
    """Text of a doubtful line in italics."""
    return f"*{text}*" if line.is_doubtful and text else text


def _write_time(time: Time | None) -> str:
    if time is None:
        return ""
    return f"**{time.text}**" if time.is_best else time.text


def _escape(text: str) -> str:
    """Text whose signs at the beginning of a line mean nothing in Markdown."""
    return text.replace("~", "\\~").replace("*", "\\*").replace("<", "&lt;")
