"""Outputs of a call in a file, for another process of the same run to check. Pure NumPy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def save(path: Path, outputs: Sequence[np.ndarray], dtypes: Sequence[str]) -> None:
    """Write the outputs of one call for another process."""
    arrays = {f"output_{index}": array for index, array in enumerate(outputs)}
    np.savez(path, dtypes=np.array(json.dumps(list(dtypes))), **arrays)  # type: ignore[arg-type]  # `arrays` may not name allow_pickle


def read(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """What `save` wrote: arrays and dtype names."""
    with np.load(path, allow_pickle=False) as file:
        dtypes: list[str] = json.loads(str(file["dtypes"]))
        return [file[f"output_{index}"] for index in range(len(dtypes))], dtypes
