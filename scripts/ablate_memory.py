"""Planner strategies against the least that any plan needs, and the peak memory of all backends. A table a model.

python scripts/ablate_memory.py [MODEL ...] [--stored RUN]... [--into docs/ablations.md]
"""

from __future__ import annotations

from pathlib import Path

from suites.cli import guard
from suites.cli.scripts import measured, show_rows
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
    "peak memory": rows.write_size("run_peak_rss_bytes"),
    rows.SPEED: rows.write_speed,
}
LEGEND = (
    "Arena: memory of all tensors between launches. Of the bound: the arena over the largest sum of tensors that are "
    "needed at the same time. Peak memory: of a process that reads what another one exported or compiled, above the "
    f"imports. {rows.SPEED_LEGEND}"
)


def measure(model: str, results: Path | None) -> Path:
    """Run one model with each planner and the competitors."""
    return measured("ablate_memory", [*LABELS, *PEERS], [{"name": model}], results).path


def main() -> None:
    """Measure the models or read stored runs, then print the tables or write them into a page."""
    show_rows(__doc__, ("transformer", "minilm", "resnet18"), measure, CELLS, LEGEND, "ablate-memory")


if __name__ == "__main__":
    guard(main, "ablate_memory")
