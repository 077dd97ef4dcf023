"""BertModel of transformers behind plain positional tensors, and the sentence encoder on top of it.

Never asks a model hub: both are made from a configuration, and weights, where there are any, come from a local file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from suites.models.nets._hub import offline


def _bert_model(config: Mapping[str, Any], attention: str, *, pooler: bool) -> nn.Module:
    with offline():
        from transformers import BertConfig, BertModel

        return BertModel(BertConfig(**{**config, "attn_implementation": attention}), add_pooling_layer=pooler)


class Bert(nn.Module):
    """ids [B, S] int64, attention mask [B, S] int64 -> (last hidden state [B, S, width], pooled [B, width])."""

    def __init__(self, config: Mapping[str, Any], attention: str) -> None:
        super().__init__()
        self.bert = _bert_model(config, attention, pooler=True)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.bert(input_ids=ids, attention_mask=attention_mask)
        return out.last_hidden_state, out.pooler_output


class SentenceEncoder(nn.Module):
    """ids [B, S] int64, attention mask [B, S] int64 -> sentence embeddings [B, width] of length 1.

    The mean of the last hidden state over the tokens that the mask keeps, normalised.
    """

    def __init__(self, config: Mapping[str, Any], attention: str) -> None:
        super().__init__()
        self.bert = _bert_model(config, attention, pooler=False)

    def load(self, weights: Path) -> None:
        """Take the weights of a safetensors file of BertModel; a weight that is missing or left over is an error."""
        tensors = load_file(weights)
        # The file also carries what this encoder has no use for: its pooler, and positions that are a mere 0, 1, 2...
        for name in [n for n in tensors if n.startswith("pooler.") or n == "embeddings.position_ids"]:
            del tensors[name]
        self.bert.load_state_dict(tensors, strict=True)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=attention_mask).last_hidden_state
        kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1e-9)
        return F.normalize(pooled, dim=-1)
