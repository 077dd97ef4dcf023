"""Two threads against one, and programs against nodes one by one: what does scheduling earn? A table for each model.

    python scripts/ablate_threads.py [MODEL ...] [--stored RUN] [--into docs/ablation-results.md]

All programs may use two processors; `threads=1` leaves one of them alone. With `dispatch=per_node` a run ends before
the next node begins, so that no two nodes run side by side and each one has memory of its own.
"""

from suites.cli.scripts import run_comparison

SUITE = {
    "name": "ablate_threads",
    "models": [{"name": "transformer"}, {"name": "minilm"}, {"name": "resnet18"}],
    "backends": ["engine"],
    "baseline": "engine",
    "threads": 2,
    "generations": 4,
}

if __name__ == "__main__":
    run_comparison(__doc__, SUITE, switches=["threads", "dispatch"])
