"""How a command line that looks into a row goes on: the row's model and what ran it."""

from __future__ import annotations

from suites.harness.record.schema import Summary


def list_arguments(row: Summary) -> list[str]:
    """The model, its sizes and options, and ``--candidate`` with the label of the row, in its precision."""
    chosen = [word for key, value in (row.shape | row.options).items() for word in ("--set", f"{key}={value}")]
    name, _, options = row.backend.removesuffix("]").partition("[")
    wanted = ",".join(filter(None, [options, "" if row.precision == "fp32" else f"precision={row.precision}"]))
    return [row.model, *chosen, "--candidate", f"{name}[{wanted}]" if wanted else name]
