"""A language model whose keys and values come in and go out, grown by what it was given, for graphs without state.

One export serves prompts and single tokens, with a past of any length from 0 on. Knows no backend.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from suites.models.nets.cached import heads_of


class WithPast(nn.Module):
    """ids [B, S] int64, past (2 L tensors [B, H, T, D]) -> logits [B, vocabulary] behind the ids, present.

    Past and present [B, H, T + S, D] hold keys and values in turn, layer after layer.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: torch.Tensor, past: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        from transformers import DynamicCache

        cache = DynamicCache(config=self.network.config)
        layers: list[Any] = cache.layers
        for layer, keys, values in zip(layers, past[::2], past[1::2], strict=True):
            layer.lazy_initialization(keys, values)  # and not `update`, which would join them to an empty tensor
            layer.keys, layer.values = keys, values
        places = past[0].shape[2] + torch.arange(ids.shape[1])[None]
        found = self.network(
            input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return found.logits[:, -1], [kept for layer in layers for kept in (layer.keys, layer.values)]

    def shapes(self, batch: int, kept: int) -> list[tuple[int, int, int, int]]:
        """Of the past of so many tokens."""
        layers, heads, width = heads_of(self.network.config)
        return [(batch, heads, kept, width)] * (2 * layers)

    def example(self, batch: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Arguments to export with, and which of their sizes vary."""
        past = [torch.zeros(shape) for shape in self.shapes(batch, 7)]
        vary = torch.export.Dim.DYNAMIC
        return (torch.zeros(batch, 5, dtype=torch.int64), past), ({1: vary}, [{2: vary}] * len(past))
