"""Attention in the forms in which models have it: who recognises what? Prints one table.

    python scripts/ablate_attention.py

fired: operators in ONNX Runtime's optimised graph that only its fusions make; nodes: of the engine's program, 1 where
the whole form became one kernel. Speeds are against eager in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

import suites
from suites.cli import guard
from suites.cli.scripts import measured, no_arguments
from suites.harness.present import rows
from suites.harness.run import ablate
from suites.harness.run.reporter import Reporter

CAPTION = "median of a call, and how many times as fast as eager [95%]: above 1 is faster"
FORMS = ("manual", "softmax", "sdpa", "causal", "masked", "gqa")
LABELS = ("torch_compile", "onnxruntime", "onnxruntime[level=basic]", "openvino", "engine")


def fired(options: Mapping[str, Any]) -> str:
    """What ONNX Runtime's fusions made of a form."""
    made = ablate.facts_of("onnxruntime", "attention", options, Reporter())["details"].get("made") or {}
    return ", ".join(f"{name} x{count}" for name, count in made.items()) or "none"


def show() -> None:
    """Print the table: a form a row."""
    sweep = {"name": "attention", "options": {"form": list(FORMS)}}
    found = rows.read_rows(suites.load_runs(measured("ablate_attention", LABELS, [sweep]).path))
    lines = [["form", "fired", "nodes", *LABELS]]
    for form in FORMS:
        of = {row["backend"]: row for row in found if json.loads(row["options"])["form"] == form}
        cells = ["\n".join((rows.write_latency(of[label]), rows.write_speed(of[label]))) for label in LABELS]
        lines.append([form, fired({"form": form}), str(of["engine"]["nodes"]), *cells])
    rows.print_rows(Console(width=190), lines, "attention, 12 heads of 64, 128 tokens", CAPTION)


if __name__ == "__main__":
    no_arguments(__doc__)
    guard(show, "ablate_attention")
