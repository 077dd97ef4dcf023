"""torch.compile taken apart: inductor's settings at other values than usual, and its modes. One table a model.

    python scripts/ablate_torch_compile.py [MODEL ...]

A setting that leaves the code that inductor makes as it is reads `not reached`.
"""

from __future__ import annotations

from suites.cli import guard
from suites.cli.ablation import show
from suites.cli.scripts import chosen_models, taken_apart


def main() -> None:
    """Take each model apart and print its table."""
    for model in chosen_models(__doc__, ("transformer", "bert", "resnet18")):
        show(taken_apart("ablate_torch_compile", model, backend="torch_compile"))


if __name__ == "__main__":
    guard(main, "ablate_torch_compile")
