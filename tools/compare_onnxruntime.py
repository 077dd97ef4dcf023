"""ONNX Runtime's levels of optimisation and its offline optimiser, beside the engine, and which fusions fired in each.

    python -m tools.compare_onnxruntime [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

Measures the models of the suite `onnxruntime` with the variants that it names; any other model at each level.
"""

from suites.cli.scripts import run_comparison, write_made
from suites.harness.declare import spec
from suites.harness.present import rows

CELLS = {
    "backend": rows.write_text("backend"),
    "latency": rows.write_latency,
    rows.SPEED: rows.write_speed,
    "error": rows.write_error,
    "export": rows.write_seconds("export_s"),
    "compile": rows.write_seconds("compile_s"),
    "first call": rows.write_seconds("first_call_s"),
    "peak memory": rows.write_size("run_peak_rss_bytes"),
    "nodes": rows.write_text("nodes"),
    "made by fusions": write_made,
}
LEGEND = (
    f"{rows.SPEED_LEGEND} Less is better in the columns of error, times, memory and nodes. Peak memory is above the "
    "imports, with nothing exported. The last column counts how many more operators of each kind the optimised graph "
    "has than the exported one. In brackets is the number that the offline optimiser made, before ONNX Runtime's own "
    "optimisations."
)

if __name__ == "__main__":
    suite = spec.load(spec.find("onnxruntime")).model_copy(update={"name": "compare_onnxruntime"})
    run_comparison(__doc__, suite, CELLS, LEGEND)
