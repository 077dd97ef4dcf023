"""Attention by itself, in the forms in which models have it. One function each; a compiler sees different graphs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from suites.models.nets.transformer import SPELLINGS

FORMS = (*SPELLINGS, "causal", "masked", "gqa")


class Attention(nn.Module):
    """q [B, H, S, D], k and v [B, G, S, D] -> [B, H, S, D]; in form ``masked`` also `seen`, bool [B, 1, 1, S].

    - ``manual``, ``softmax``, ``sdpa``: every token sees every token, in three spellings (`nets/transformer.py`);
    - ``causal``: scaled_dot_product_attention, a token sees itself and those before it;
    - ``masked``: the same with a mask of the keys that are no padding, as an input;
    - ``gqa``: the same with fewer heads of k and v than of q, each shared by a group.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.form in SPELLINGS:
            return SPELLINGS[self.form](q, k, v, False)
        causal, grouped = self.form == "causal", self.form == "gqa"
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal, enable_gqa=grouped)
