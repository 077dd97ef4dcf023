"""torch.compile taken apart: inductor's settings at other values than usual, and its modes. A table for each model.

    python scripts/ablate_torch_compile.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

A setting that leaves the code that inductor makes as it is reads `not reached`.
"""

from suites.cli.scripts import run_comparison

SUITE = {
    "name": "ablate_torch_compile",
    "models": [{"name": "transformer"}, {"name": "bert"}, {"name": "resnet18"}],
    "backends": ["torch_compile"],
    "baseline": "torch_compile",
    "generations": 4,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, switches=())
