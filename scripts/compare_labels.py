"""Labelled pictures through models with real weights, the engine beside eager: hits, and how far scores differ.

    python scripts/compare_labels.py [--into docs/measurement.md]

Needs what `enginebench data fetch` brings; a model without its weights or pictures is a row that says so.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import torch

import engine
from suites import models
from suites.cli import guard
from suites.cli.scripts import check_page, read_path
from suites.harness.present import markdown
from suites.harness.record import store
from suites.models.nets import labelled


class Comparison(NamedTuple):
    """Pictures of one model: how many, which classes eager and the engine found rightly, where both say the same, and
    the largest difference of two scores over the largest score of eager.
    """

    pictures: int
    eager: int
    engine: int
    same: int
    error: float


def compare(name: str) -> Comparison:
    """All labelled pictures of model `name`, one batch, one thread."""
    model, _ = models.get(name).build()
    pictures, classes = labelled.labelled(name)
    with torch.no_grad():
        expected = model(pictures).numpy()
    found = np.asarray(engine.compile(model, (pictures,))(pictures))
    best, ours = expected.argmax(1), found.argmax(1)
    eager_right, engine_right = (int((answers == classes).sum()) for answers in (best, ours))
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    return Comparison(len(classes), eager_right, engine_right, int((best == ours).sum()), error)


MARKER = "labels"
HEADER = ("model", "pictures", "eager top-1", "engine top-1", "same class", "largest relative error of a score")


def row(name: str) -> list[str]:
    """One line of the table."""
    reason = models.get(name).unavailable() or labelled.lacks(name)
    if reason:
        return [name, f"unavailable: {reason}", *[""] * 4]
    c = compare(name)
    return [name, str(c.pictures), str(c.eager), str(c.engine), str(c.same), f"{c.error:.1e}"]


def main() -> None:
    """Print the table, or write it between its markers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=read_path, help="write the Markdown between the markers of this file")
    into = parser.parse_args().into
    check_page(into, MARKER)
    lines = [list(HEADER), ["---"] * len(HEADER), *(row(name) for name in labelled.LABELLED)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    if into:
        markdown.write_between(into, MARKER, f"{markdown.heading(store.here())}\n\n{text}\n")
    else:
        print(text)


if __name__ == "__main__":
    guard(main, "compare_labels")
