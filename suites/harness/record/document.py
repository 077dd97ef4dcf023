"""Writes the tables of docs/results-format.md from the schema: ``python -m suites.harness.record.document``.

A test keeps them fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from suites.harness.files import write_text_file
from suites.harness.record import frame
from suites.harness.record.facts import AllFacts
from suites.harness.record.kinds import KINDS
from suites.harness.record.roofs import Roof
from suites.harness.record.schema import Part, Record, Summary, names

PARTS: tuple[type[BaseModel], ...] = (AllFacts, *(part for part in Part.__subclasses__() if part is not Record))
"""Values that have keys of their own."""


def tables() -> dict[str, str]:
    """Marker -> the table in Markdown: each kind of line, each value with keys of its own, the columns of a frame."""
    found = {kind: _fields(record) for kind, record in KINDS.items()}
    found |= {part.__name__: _fields(part) for part in PARTS}
    roofs = TypeAdapter(Roof).json_schema()["properties"].items()
    found["Roof"] = _table(("key", "meaning"), ((f"`{name}`", about["description"]) for name, about in roofs))
    about = ((f"`{one.name}`", one.dtype, one.meaning) for one in (*frame.ABOUT_RUN, *frame.columns(Summary)))
    return found | {"frame": _table(("column", "dtype", "meaning"), about)}


def write(page: Path) -> str:
    """The text of the page with its tables made anew."""
    text = page.read_text(encoding="utf-8")
    for marker, table in tables().items():
        before, opening, rest = text.partition(f"<!-- {marker} -->\n")
        _, closing, after = rest.partition(f"<!-- /{marker} -->")
        if not opening or not closing:
            raise ValueError(f"{page}: expected the markers <!-- {marker} --> and <!-- /{marker} -->")
        text = f"{before}{opening}{table}\n{closing}{after}"
    return text


def _fields(part: type[BaseModel]) -> str:
    about = ((name, part.model_fields[name]) for name in names(part))
    rows = ((f"`{field.serialization_alias or name}`", field.description or "") for name, field in about)
    return _table(("key", "meaning"), rows)


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(" ".join(cell.split()) for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    PAGE = Path(__file__).resolve().parents[3] / "docs" / "results-format.md"
    write_text_file(PAGE, write(PAGE))
