"""Program files that somebody has altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import engine
from engine import container


def saved_with(program: engine.Program | engine.Decoder, path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """`program` saved with a header that `change` has altered, under a hash that fits."""
    program.save(path)
    raw, tensors = container.read(path)
    header = json.loads(raw)
    change(header)
    arrays = {name: np.array(tensor) for name, tensor in tensors.items()}
    path.unlink()
    container.write(path, arrays, json.dumps(header, sort_keys=True, separators=(",", ":")).encode())
