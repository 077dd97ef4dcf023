"""Example inputs and dynamic shapes for exporting a decoder's entry points."""

from __future__ import annotations

from typing import Any

import torch


def examples(batch: int, max_length: int) -> dict[str, tuple[tuple[torch.Tensor, ...], Any]]:
    """Entry point -> (ids, position, lengths), int64, and the dynamic shapes to export with."""
    found: dict[str, tuple[tuple[torch.Tensor, ...], Any]] = {}
    for name, length in (("prefill", min(8, max_length)), ("decode", 1)):
        ids = torch.zeros(batch, length, dtype=torch.long)
        counts = torch.zeros(batch, dtype=torch.long), torch.full((batch,), length)
        sequence = torch.export.Dim("sequence", min=2, max=max_length)
        free = name == "prefill" and max_length > 2
        found[name] = (ids, *counts), ({"ids": {1: sequence}, "position": None, "lengths": None} if free else None)
    return found
