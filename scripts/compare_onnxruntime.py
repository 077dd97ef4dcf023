"""The engine against ONNX Runtime at each level of optimisation, with what it costs to get there. One table a model.

python scripts/compare_onnxruntime.py [MODEL ...]
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from suites.cli.scripts import chosen_models, measured
from suites.harness.present import table

LABELS = ("onnxruntime", *(f"onnxruntime[level={level}]" for level in ("extended", "basic", "disabled")), "engine")
COSTS = ("export_s", "compile_s", "first_call_s")


def show(model: str) -> Table:
    """The table of one model."""
    outcome = measured("compare_onnxruntime", LABELS, [{"name": model}], baseline="onnxruntime")
    found = Table(
        "backend", "latency", "ratio to onnxruntime [95%] verdict", "error", *COSTS, "peak memory", title=model
    )
    for line in outcome.summaries:
        time, ratio = table.cell_time(line)
        error = f"{line.error.relative:.1e}" if line.error else "-"
        costs = [table.seconds(getattr(line, name)) for name in COSTS]
        row = (line.backend, time, ratio, error, *costs, table.size(line.run_peak_rss_bytes))
        found.add_row(*(cell.replace("[", "\\[") for cell in row))
    found.caption = (
        "ratio below 1 is faster than ONNX Runtime; everything else: lower is better; "
        "memory above the imports, nothing exported"
    )
    return found


if __name__ == "__main__":
    for chosen in chosen_models(__doc__, ("transformer", "bert", "resnet18")):
        Console(width=150).print(show(chosen))
