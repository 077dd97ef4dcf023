"""Every pass of the engine left out of all, and added to none: what does each one earn? Prints one table a model.

    python scripts/ablate_passes.py [MODEL ...]

Attention is spelled by hand where a model offers that, so that there is something to recognise. The same as
`enginebench ablate MODEL --switches pass`, which has more to turn.
"""

from __future__ import annotations

from suites.cli import guard
from suites.cli.ablation import show
from suites.cli.scripts import chosen_models, taken_apart

SPELLED = {"transformer": {"attention": "manual"}, "bert": {"attention": "eager"}, "gpt2": {"attention": "eager"}}


def main() -> None:
    """Take each model apart and print its table."""
    for model in chosen_models(__doc__, ("transformer", "bert", "gpt2", "resnet18")):
        show(taken_apart("ablate_passes", model, SPELLED.get(model), switches=["pass"]))


if __name__ == "__main__":
    guard(main, "ablate_passes")
