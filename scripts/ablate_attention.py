"""Attention in the forms in which models have it: who recognises what? Prints a table for each form.

    python scripts/ablate_attention.py [--stored RUN] [--into docs/ablation-results.md]

nodes: of the program or of the optimised graph; the engine's has 1 if the whole form became one kernel.
"""

from suites.cli.scripts import run_comparison, write_made
from suites.harness.present import rows

SUITE = {
    "name": "ablate_attention",
    "models": [{"name": "attention", "options": {"form": ["manual", "softmax", "sdpa", "causal", "masked", "gqa"]}}],
    "backends": ["torch_compile", "onnxruntime", "onnxruntime[level=basic]", "openvino", "engine"],
}
CELLS = {
    "backend": rows.write_text("backend"),
    "latency": rows.write_latency,
    rows.SPEED: rows.write_speed,
    "nodes": rows.write_text("nodes"),
    "made by fusions": write_made,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, CELLS, rows.SPEED_LEGEND)
