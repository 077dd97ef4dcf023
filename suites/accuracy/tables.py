"""Tables of accuracy, of time beside accuracy, and of sensitivity. Knows no backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from suites.accuracy.estimates import Estimate
from suites.accuracy.evaluate import EXACT, Row
from suites.accuracy.tasks import Column, Task
from suites.accuracy.tradeoff import Entry, Tradeoff, list_reasons
from suites.harness.present import units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Table

if TYPE_CHECKING:
    from suites.accuracy.datasets import Dataset
    from suites.accuracy.sensitivity import Sensitivity
    from suites.harness.record.schema import Score

FRONT = "*"
"""Marks rows of a trade-off that no other row beats in time and in accuracy."""


def format_number(value: float, form: str) -> str:
    """A number as a column of this form has it."""
    if form == "%":
        return f"{100 * value:.2f}%"
    formats = {"e": ".1e", "c": ".6f"}
    return format(value, formats.get(form, ".4f" if abs(value) < 1 else ".3f"))


def format_estimate(one: Estimate | Score | None, form: str, *, signed: bool = False) -> str:
    """A value with its 95% interval in brackets: ``29.041 [27.1, 31.2]``."""
    if one is None:
        return units.UNKNOWN
    sign = "+" if signed and one.value > 0 else ""
    value = sign + format_number(one.value, form)
    if one.low is None or one.high is None or one.low == one.high:
        return value
    return f"{value} [{format_number(one.low, form)}, {format_number(one.high, form)}]"


def tabulate(task: Task, rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line for each row, with the columns of the task, or its status; `describe` says why it has no numbers."""
    return [_line(task.columns, row) for row in rows]


def _line(columns: Sequence[Column], row: Row) -> dict[str, str]:
    cells = {"backend": row.backend, "precision": row.precision, "weights": units.size(row.weight_bytes)}
    if row.status != "ok":
        return cells | {column.name: units.UNKNOWN for column in columns[1:]} | {columns[0].name: row.status}
    is_base = (row.backend, row.precision) == EXACT
    for column in columns:
        one = None if is_base and column.name == "change" else row.estimates.get(column.name)
        cells[column.name] = format_estimate(one, column.form, signed=column.name == "change")
    return cells


def describe(task: Task, model: str, rows: Sequence[Row] = ()) -> list[str]:
    """The paragraphs below a table: why rows have no numbers, which data it is, what the columns mean."""
    columns = "; ".join(
        f"{one.name}: {one.meaning}" + (f" ({one.better} is better)" if one.better else "") for one in task.columns
    )
    compared = "All rows are compared with eager in the model's own types, called float32 here, on the same inputs."
    data = f"{model} on {task.data}, {task.items}. In brackets: 95% bootstrap intervals. {compared}"
    return [*list_reasons(rows), data, f"{columns}."]


def count_calls(dataset: Dataset) -> str:
    """How many calls a table of sensitivity is made from: those of the first shape."""
    return f"{len(dataset.parts[0].chunks)} calls"


def describe_sensitivity(dataset: Dataset, model: str, found: Sensitivity) -> list[str]:
    """The paragraphs below a table of sensitivity."""
    compared = "Every layer is compared with the engine's program in fp32."
    if found.plain:
        compared += f" Without a row, because their weights have no lower precision: {', '.join(found.plain)}."
    return [
        f"All layers in {found.precision}: {found.measure} {format_estimate(found.whole, 'e')}.",
        f"{model} on {dataset.task.data}, {count_calls(dataset)}. In brackets: 95% bootstrap intervals. {compared}",
    ]


def tabulate_sensitivity(found: Sensitivity) -> list[dict[str, str]]:
    """A line for each layer, the most sensitive first."""
    name = found.measure
    return [
        {
            "layer": one.layer,
            f"{name}, only this layer in {found.precision}": format_estimate(one.alone, "e"),
            f"{name}, all but this layer": format_estimate(one.without, "e"),
        }
        for one in found.layers
    ]


def tabulate_tradeoff(found: Tradeoff, *, is_short: bool) -> list[dict[str, str]]:
    """A line for each backend and precision, fastest first.

    Args:
        found: what to print.
        is_short: only the columns of `Tradeoff.headline`, and no intervals of them.
    """
    columns = [one for one in found.columns if not is_short or one.name in found.headline]
    return [_tradeoff_line(entry, found.base, columns, is_short=is_short) for entry in found.entries]


def _tradeoff_line(entry: Entry, base: str, columns: Sequence[Column], *, is_short: bool) -> dict[str, str]:
    cells = {
        "backend": entry.summary.backend,
        "": FRONT if entry.is_front else "",
        "precision": entry.summary.precision,
        f"speed vs {base}": "1.00x" if entry.speed is None else units.factor(entry.speed),
        "weights": units.size(entry.weight_bytes),
    }
    for column in columns:
        one = entry.accuracy.scores.get(column.name) if entry.accuracy is not None else None
        shown = Estimate(one.value) if is_short and one is not None else one
        cells[column.name] = format_estimate(shown, column.form, signed=column.name == "change")
    return cells


def describe_tradeoffs(all_found: Sequence[Tradeoff], *, is_short: bool) -> list[Part]:
    """Time, bytes and accuracy of each model that was scored."""
    parts: list[Part] = []
    for found in all_found:
        parts += [Paragraph(found.title, "bold"), Table.of(tabulate_tradeoff(found, is_short=is_short))]
        parts += [Paragraph(text, "dim") for text in describe_tradeoff(found, is_short=is_short)]
    return [*parts, *([Paragraph(TRADEOFF_LEGEND, "dim")] if parts else [])]


def describe_tradeoff(found: Tradeoff, *, is_short: bool) -> list[str]:
    """The paragraphs below a table: rows without accuracy, which data it is, what the columns mean."""
    shown = [one for one in found.columns if not is_short or one.name in found.headline]
    meanings = "; ".join(f"{one.name}: {one.meaning}" for one in shown)
    lines = [*found.reasons, f"Accuracy on {found.data}. {meanings}."]
    if not is_short:
        lines[-1] += " In brackets: 95% intervals."
    return lines


TRADEOFF_LEGEND = (
    f"{FRONT}: no other row is faster and at most as far from float32, by the cosine of the outputs. The cases of two "
    "precisions ran one after the other, so the speed contains what the machine did between them."
)
"""Stands once below all tables of `tabulate_tradeoff`."""
