"""Labelled pictures as arrays. Knows no model: what a model subtracts or divides by is the model's business."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from suites import data

_SHORT_SIDE = 256  # of a picture before its centre is cut out


def centre(file: Path, size: int = 224, *, bicubic: bool = False) -> np.ndarray:
    """The middle of a picture, [size, size, 3] uint8 RGB; its short side is first brought to 256/224 of `size`.

    A network expects the interpolation that it was trained with: `bicubic` instead of bilinear.
    """
    from PIL import Image

    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    wide, high = picture.size
    scale = _SHORT_SIDE / 224 * size / min(wide, high)
    kind = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
    picture = picture.resize((round(wide * scale), round(high * scale)), kind)
    left, top = (picture.width - size) // 2, (picture.height - size) // 2
    return np.asarray(picture.crop((left, top, left + size, top + size)))


def imagenet20(size: int = 224, *, bicubic: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(pictures [20, size, size, 3] uint8 RGB, classes [20] int64 of ImageNet's thousand)."""
    files = sorted(data.path("imagenet20", "foolbox", "data").glob("imagenet_*.jpg"))
    return np.stack([centre(f, size, bicubic=bicubic) for f in files]), np.array([_label(f) for f in files])


def _label(file: Path) -> int:
    """The class in a name like imagenet_NUMBER_CLASS.jpg."""
    return int(file.stem.rsplit("_", 1)[1])


def cifar10(count: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` test pictures: ([count, 32, 32, 3] uint8 RGB, classes [count] int64)."""
    from PIL import Image

    sheet = data.path("cifar10", "package", "test_batch.png")
    labels = json.loads(data.path("cifar10", "package", "test_lables.json").read_text())
    with Image.open(sheet) as opened:  # a row of the sheet is a picture
        rows = np.asarray(opened.convert("RGB").crop((0, 0, 32 * 32, count)))
    return rows.reshape(-1, 32, 32, 3), np.array(labels[:count])
