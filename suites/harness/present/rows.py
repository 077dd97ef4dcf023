"""Tables of the rows of `suites.load_runs`: which column stands under which heading, and how its value is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from suites.harness.present import units
from suites.harness.present.table import Column, Table
from suites.harness.record.schema import Speed

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[Any, Any]
"""Column -> value of one row; None where the value is unknown."""
Cell = Callable[[Row], str]
"""Writes one cell of a table."""


def read_rows(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, with None for every missing value."""
    plain = frame.astype(object)
    return [*plain.where(frame.notna(), None).to_dict("records")]


SPEED = "speed vs {baseline}"
"""The heading of `write_speed`. The rows of a stored run may have another baseline than the script that prints them."""
SPEED_LEGEND = (
    "The heading names a backend. Speed is the time of that backend divided by the time of the row, with a 95% "
    "interval. Above 1 the row is faster."
)


def make_table(rows: Sequence[Row], cells: Mapping[str, Cell]) -> Table:
    """A line for every row below the headings of `cells`. `rows` have one baseline, which `SPEED` names."""
    made = Table([Column(heading.format(baseline=rows[0]["baseline"]), wraps=True) for heading in cells])
    for row in rows:
        made.add(*(write(row) for write in cells.values()))
    return made


def write_text(column: str) -> Cell:
    """Writes the value as it is."""
    return lambda row: units.UNKNOWN if row[column] is None else str(row[column])


def write_seconds(column: str) -> Cell:
    """Writes a time."""
    return lambda row: units.seconds(row[column])


def write_size(column: str) -> Cell:
    """Writes a number of bytes."""
    return lambda row: units.size(row[column])


def write_error(row: Row) -> str:
    """Writes the relative error against float64."""
    return units.error(row["error_relative"])


def write_latency(row: Row) -> str:
    """Writes the median of a call, or the status of a row that has none."""
    return str(row["status"]) if row["latency_p50"] is None else units.seconds(row["latency_p50"])


def write_speed(row: Row) -> str:
    """Writes how many times as fast as the baseline, with interval and verdict, or why the row has no time."""
    if row["latency_p50"] is None:
        return shorten(row["reason"] or "")
    if row["speed"] is None:
        return ""
    speed = Speed(row["speed"], row["speed_low"], row["speed_high"])
    return f"{units.factor(speed)} {describe_verdict(row['verdict'], row['detectable'])}"


def describe_verdict(verdict: str | None, detectable: float | None) -> str:
    """The verdict, and with ``unclear`` the smallest difference that this comparison detects."""
    is_known = verdict == "unclear" and detectable is not None
    return f"{verdict}, detects {detectable:.0%}" if is_known else str(verdict)


def shorten(reason: str) -> str:
    """The beginning of a reason, on one line of at most 60 characters."""
    text = " ".join(reason.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
