#!/usr/bin/env python3
"""What each precision earns in time and memory, and costs in accuracy on real data. Prints a table for each model.

    python scripts/ablate_quant.py [MODEL ...] [--stored RUN] [--into docs/quantization-results.md]

`enginebench data fetch` brings weights and data; `enginebench accuracy` scores other precisions, and recipes.
"""

from suites.cli.scripts import run_comparison

MODELS = ("minilm", "stories15m", "smollm2", "cifar10-cnn", "resnet50-imagenet")
SUITE = {
    "name": "ablate_quant",
    "models": [{"name": name} for name in MODELS],
    "backends": ["engine", "eager"],
    "baseline": "engine",
    "precision": ["fp32", "bf16", "int8_weight"],
    "accuracy": True,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE)
