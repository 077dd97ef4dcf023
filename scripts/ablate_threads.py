"""Two threads against one, and programs against nodes one by one: what does scheduling earn? One table a model.

    python scripts/ablate_threads.py [MODEL ...]

Everybody may use two processors; `threads=1` leaves one of them alone. With `dispatch=per_node` a run ends before the
next node begins, so that no two nodes run side by side and each one has memory of its own.
"""

from __future__ import annotations

from suites.cli import guard
from suites.cli.ablation import show
from suites.cli.scripts import chosen_models, taken_apart


def main() -> None:
    """Take each model apart and print its table."""
    for model in chosen_models(__doc__, ("transformer", "minilm", "resnet18")):
        show(taken_apart("ablate_threads", model, switches=["threads", "dispatch"], threads=2))


if __name__ == "__main__":
    guard(main, "ablate_threads")
