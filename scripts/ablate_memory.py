"""Planner strategies against the least that any plan needs, and the peak memory of all backends. A table a model.

python scripts/ablate_memory.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]
"""

from suites.cli.scripts import run_comparison
from suites.harness.present import rows, units

SUITE = {
    "name": "ablate_memory",
    "models": [{"name": "transformer"}, {"name": "minilm"}, {"name": "resnet18"}],
    "backends": [
        *("engine", "engine[planner=in_order]", "engine[planner=no_reuse]", "torch_compile", "onnxruntime", "openvino")
    ],
}


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

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, CELLS, LEGEND)
