"""Each variant of convolution for a whole network, beside what the cost model chooses. Prints a table for each model.

    python scripts/ablate_conv.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

`enginebench profile MODEL` has the time of each layer.
"""

from suites.cli.scripts import run_comparison
from suites.harness.present import rows

SUITE = {
    "name": "ablate_conv",
    "models": [{"name": "resnet18"}, {"name": "resnet50"}],
    "backends": [*(f"engine[variant.conv={one}]" for one in ("direct", "winograd2", "winograd4")), "eager"],
    "baseline": "engine",
}
CELLS = {
    "program": rows.write_text("backend"),
    "latency": rows.write_latency,
    rows.SPEED: rows.write_speed,
    "error": rows.write_error,
    "peak memory": rows.write_size("run_peak_rss_bytes"),
}
LEGEND = f"{rows.SPEED_LEGEND} Error: relative, against float64. Peak memory is above the imports."

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, CELLS, LEGEND)
