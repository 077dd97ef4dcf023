"""ONNX Runtime taken apart: each graph transformer off, each lower level, its offline optimiser. A table a model.

    python scripts/ablate_onnxruntime.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

A transformer that leaves the optimised graph as it is (compared by its operators, attributes, small constants and
edges) reads `not reached`: it never fired.
"""

from suites.cli.scripts import run_comparison

SUITE = {
    "name": "ablate_onnxruntime",
    "models": [{"name": "transformer"}, {"name": "bert"}, {"name": "resnet18"}],
    "backends": ["onnxruntime"],
    "baseline": "onnxruntime",
    "generations": 4,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, switches=())
