"""The process in which `replay` runs a case of the engine: ``python -m engine.inspect.replaying FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import dtypes, passes
from engine.config import Config
from engine.graph import share_constants
from engine.inspect.capsule import EXPECTED, FACTS, INPUTS, PROGRAM
from engine.inspect.compare import widen
from engine.memory import as_array
from engine.program import opened
from engine.runtime.program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray


def load_case(path: Path, config: Config) -> Program:
    """The program of a graph that was saved before any pass."""
    with opened(path, "full", mapped=False) as graph:
        passes.run_common(graph, config)
        share_constants([graph])
        return Program(graph, config)


def _load_arrays(path: Path, kinds: list[str]) -> list[NDArray[Any]]:
    """Arrays of these element types, of which NumPy's files know not all."""
    with np.load(path) as found:
        return [found[f"arr_{n}"].view(dtypes.dtype(kind).numpy) for n, kind in enumerate(kinds)]


def _main(folder: Path) -> None:
    """Run the engine's case. AssertionError if its results are wrong."""
    facts = json.loads((folder / FACTS).read_text())
    program = load_case(folder / PROGRAM, Config.from_dict(facts["options"]))
    results = [as_array(one) for one in program(*_load_arrays(folder / INPUTS, facts["inputs"]))]
    for number, (ours, right) in enumerate(
        zip(results, _load_arrays(folder / EXPECTED, facts["results"]), strict=True)
    ):
        if facts["limit"] is None:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(widen(ours) - widen(right))
        same = (ours == right) | (np.isnan(widen(ours)) & np.isnan(widen(right)))
        wrong = ~same & ~(error <= facts["limit"])
        at = tuple(int(one[0]) for one in np.nonzero(wrong)) if wrong.any() else None
        assert at is None, f"result {number}, element {list(at)}: {ours[at]}, expected {right[at]}"  # noqa: S101


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
