"""Attention in the forms in which models have it: who recognises what? Prints one table.

    python scripts/ablate_attention.py

fired: operators in ONNX Runtime's optimised graph that only its fusions make; nodes: of the engine's program, 1 where
the whole form became one kernel. Ratios are to eager in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from suites.cli.scripts import chosen_models, measured
from suites.harness.present import table
from suites.harness.run import ablate
from suites.harness.run.reporter import Reporter

FORMS = ("manual", "softmax", "sdpa", "causal", "masked", "gqa")
LABELS = ("torch_compile", "onnxruntime", "onnxruntime[level=basic]", "openvino", "engine")


def fired(options: Mapping[str, Any]) -> str:
    """What ONNX Runtime's fusions made of a form."""
    made = ablate.facts_of("onnxruntime", "attention", options, Reporter())["details"].get("made") or {}
    return ", ".join(f"{name} x{count}" for name, count in made.items()) or "none"


def show() -> Table:
    """The table: a form a row."""
    outcome = measured("ablate_attention", LABELS, [{"name": "attention", "options": {"form": list(FORMS)}}])
    header = [label.replace("[", "\\[") for label in LABELS]
    found = Table("form", "fired", "nodes", *header, title="attention, 12 heads of 64, 128 tokens")
    for form in FORMS:
        rows = {line.backend: line for line in outcome.summaries if line.options["form"] == form}
        cells = ["\n".join(table.cell_time(rows[label])).replace("[", "\\[") for label in LABELS]
        found.add_row(form, fired({"form": form}), str(rows["engine"].nodes), *cells)
    found.caption = "median of a call, and its ratio to eager [95%]: below 1 is faster"
    return found


if __name__ == "__main__":
    chosen_models(__doc__, ())
    Console(width=190).print(show())
