"""Weights of a TensorFlow.js model: a manifest in JSON and shards of raw numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np


def read(manifest: Path) -> dict[str, np.ndarray]:
    """Every tensor by its name, float32; shards lie beside `manifest`.

    Raises:
        ValueError: a tensor of another type, a quantised one, or shards of another size than the manifest says.
    """
    weights: dict[str, np.ndarray] = {}
    for group in json.loads(manifest.read_text())["weightsManifest"]:
        data = b"".join((manifest.parent / shard).read_bytes() for shard in group["paths"])
        start = 0
        for entry in group["weights"]:
            if entry["dtype"] != "float32" or "quantization" in entry:
                raise ValueError(f"{manifest}: {entry['name']}: expected plain float32, got {entry}")
            size = math.prod(entry["shape"])
            weights[entry["name"]] = np.frombuffer(data, "<f4", size, start).reshape(entry["shape"])
            start += 4 * size
        if start != len(data):
            raise ValueError(f"{manifest}: its shards hold {len(data)} bytes, its tensors {start}")
    return weights
