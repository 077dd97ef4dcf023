"""ONNX Runtime taken apart: each graph transformer off, each lower level, its offline optimiser. One table a model.

    python scripts/ablate_onnxruntime.py [MODEL ...]

A transformer that leaves the optimised graph as it is (compared by its operators, attributes, small constants and
edges) reads `not reached`: it never fired.
"""

from __future__ import annotations

from suites.cli import guard
from suites.cli.ablation import show
from suites.cli.scripts import chosen_models, taken_apart


def main() -> None:
    """Take each model apart and print its table."""
    for model in chosen_models(__doc__, ("transformer", "bert", "resnet18")):
        show(taken_apart("ablate_onnxruntime", model, backend="onnxruntime"))


if __name__ == "__main__":
    guard(main, "ablate_onnxruntime")
