"""Writes the values that the engine of the environment that runs it computes. Started by `suites.cli.sides`.

``python -P launch.py ROOT PATHS suites.other_engine.values QUESTION``, where QUESTION is JSON: ``{"roots": [...],
"threads": 1, "options": {...}, "folder": "..."}``. The folder has ``program.pt2`` and ``inputs.pt``; ``values.npz`` is
written to it, with the values by their names in the exported graph. Ends with a reason on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from suites.other_engine.launch import check_origin, explain


def write(question: Mapping[str, Any]) -> None:
    """Run the program once and write its values, bfloat16 as float32; those under a view but axes are left out."""
    import torch

    from suites.backends.engine import Engine

    folder = Path(question["folder"])
    inputs = torch.load(folder / "inputs.pt")
    backend = Engine(question["threads"], question["options"])
    saved: Any = torch.export.load(folder / "program.pt2")  # which the engine takes as it takes a module
    program = backend.compiled(saved, inputs)
    trace = program.trace(*inputs, keep=range(len(program.lowered.nodes)))
    found: dict[str, np.ndarray] = {}
    for traced, node in zip(trace.nodes, program.lowered.nodes, strict=True):
        for value, made in zip(node.outputs, traced.outputs, strict=True):
            if value.origin is None or any(step.op != "permute" for step in value.origin.view):
                continue
            order = tuple(range(len(value.shape)))
            for step in value.origin.view:
                order = tuple(order[axis] for axis in step.attributes["axes_order"])
            array = np.transpose(getattr(made, "array", made), np.argsort(order))  # earlier engines gave the array
            found[value.origin.value] = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    np.savez(folder / "values.npz", **found)  # type: ignore[arg-type]  # whose named parameters no value is called like


def main() -> None:
    """Answer the question of the command line."""
    question = json.loads(sys.argv[1])
    try:
        check_origin(question["roots"])
        write(question)
    except Exception as error:  # noqa: BLE001  # whatever another version raises is the reason
        sys.exit(explain(error))


if __name__ == "__main__":
    main()
