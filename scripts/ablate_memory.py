"""Planner strategies against the least that any plan needs, and everybody's peak memory. Prints one table a model.

    python scripts/ablate_memory.py [MODEL ...]

arena: memory for what lives between nodes; of the bound: over the largest sum of what is alive at once, which no plan
can go below; peak: of a process that reads what another one exported or compiled, above its imports: weights, whatever
a runtime keeps, and the model in torch that each process builds first; what exporting takes is not in it.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from suites.cli.scripts import chosen_models, measured
from suites.harness.present import table

LABELS = ("engine", "engine[planner=in_order]", "engine[planner=no_reuse]")
PEERS = ("torch_compile", "onnxruntime", "openvino")


def show(model: str) -> Table:
    """The table of one model."""
    outcome = measured("ablate_memory", [*LABELS, *PEERS], [{"name": model}])
    found = Table("backend", "arena", "of the bound", "peak", "ratio to eager [95%] verdict", title=model)
    for line in outcome.summaries:
        bound, arena = line.arena_lower_bound_bytes, line.arena_bytes
        above = f"{arena / bound:.2f}" if bound and arena is not None else "-"
        ratio = table.cell_time(line)[1].replace("[", "\\[")
        peak = table.size(line.run_peak_rss_bytes)
        found.add_row(line.backend.replace("[", "\\["), table.size(arena), above, peak, ratio)
    found.caption = "peak: above the imports, nothing exported; lower is better everywhere; ratio below 1 is faster"
    return found


if __name__ == "__main__":
    for chosen in chosen_models(__doc__, ("transformer", "minilm", "resnet18")):
        Console(width=130).print(show(chosen))
