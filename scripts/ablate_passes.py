"""Every pass of the engine left out of all, and added to none: what does each one earn? Prints a table for each model.

    python scripts/ablate_passes.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

Attention is spelled by hand where a model offers that, so that there is something to recognise. `enginebench ablate`
has more switches.
"""

from suites.cli.scripts import run_comparison

SUITE = {
    "name": "ablate_passes",
    "models": [
        {"name": "transformer", "options": {"attention": "manual"}},
        {"name": "bert", "options": {"attention": "eager"}},
        {"name": "gpt2", "options": {"attention": "eager"}},
        {"name": "resnet18"},
    ],
    "backends": ["engine"],
    "baseline": "engine",
    "generations": 4,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, switches=["pass"])
