"""Planner strategies against the least that any plan needs, and everybody's peak memory. Prints one table a model.

    python scripts/ablate_memory.py [MODEL ...]

arena: memory for what lives between nodes; of the bound: over the largest sum of what is alive at once, which no plan
can go below; peak: of a process that reads what another one exported or compiled, above its imports: weights, whatever
a runtime keeps, and the model in torch that each process builds first; what exporting takes is not in it.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

import suites
from suites.cli.scripts import chosen_models, measured
from suites.harness.present import rows, units

LABELS = ("engine", "engine[planner=in_order]", "engine[planner=no_reuse]")
PEERS = ("torch_compile", "onnxruntime", "openvino")


def write_share(row: rows.Row) -> str:
    """The arena over its lower bound."""
    arena, bound = row["arena_bytes"], row["arena_lower_bound_bytes"]
    return f"{arena / bound:.2f}" if bound and arena is not None else units.UNKNOWN


CELLS = {
    "backend": rows.write_text("backend"),
    "arena": rows.write_size("arena_bytes"),
    "of the bound": write_share,
    "peak": rows.write_size("run_peak_rss_bytes"),
    "speed vs eager [95%] verdict": rows.write_speed,
}
CAPTION = "peak: above the imports, nothing exported; less memory is better; speed above 1 is faster"


def show(model: str) -> Table:
    """The table of one model."""
    frame = suites.load_runs(measured("ablate_memory", [*LABELS, *PEERS], [{"name": model}]).path)
    return rows.make_table(rows.write_lines(rows.read_rows(frame), CELLS), model, CAPTION)


if __name__ == "__main__":
    for chosen in chosen_models(__doc__, ("transformer", "minilm", "resnet18")):
        Console(width=130).print(show(chosen))
