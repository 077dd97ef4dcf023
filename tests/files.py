"""Program files that somebody has altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
from engine.program import container


def saved_with(program: engine.Program | engine.Decoder, path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """`program` saved with a header that `change` has altered, under a hash that fits."""
    program.save(path)
    with container.opened(path, mapped=False) as (raw, tensors):
        header = json.loads(raw)
        arrays = {name: read() for name, read in tensors.items()}
    change(header)
    container.write(path, arrays, json.dumps(header, sort_keys=True, separators=(",", ":")).encode())
