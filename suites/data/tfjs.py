"""Weights of a TensorFlow.js model: a manifest in JSON and shards of raw numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np


def read(manifest: Path) -> dict[str, np.ndarray]:
    """Every tensor by its name; shards lie beside `manifest`, and all of their numbers are float32."""
    weights: dict[str, np.ndarray] = {}
    for group in json.loads(manifest.read_text())["weightsManifest"]:
        data = b"".join((manifest.parent / shard).read_bytes() for shard in group["paths"])
        start = 0
        for entry in group["weights"]:
            size = math.prod(entry["shape"])
            weights[entry["name"]] = np.frombuffer(data, "<f4", size, start).reshape(entry["shape"])
            start += 4 * size
    return weights
