"""A pre-norm transformer. The three spellings of attention compute one function and differ in what a compiler sees."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

# Each spelling: q, k, v of shape [B, H, S, D] -> [B, H, S, D].
Spelling = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]


def attend_manual(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Softmax by its definition; scale as a factor; the causal mask as a boolean one."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return torch.matmul(weights / weights.sum(dim=-1, keepdim=True), v)


def attend_softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """F.softmax; scale as a divisor; the causal mask as an added one."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores + torch.full((q.shape[-2], k.shape[-2]), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    return torch.matmul(F.softmax(scores, dim=-1), v)


def attend_sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """One call."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


SPELLINGS: dict[str, Spelling] = {"manual": attend_manual, "softmax": attend_softmax, "sdpa": attend_sdpa}


class Block(nn.Module):
    """[B, S, width] -> the same: attention, then a layer of four times the width, each behind a LayerNorm."""

    def __init__(self, width: int, heads: int, attention: str, feed_forward: str, *, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.attend = SPELLINGS[attention]
        self.causal = causal
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 4 * width) if feed_forward == "swiglu" else None
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape

        def split(t: torch.Tensor) -> torch.Tensor:  # [B, S, H * D] -> [B, H, S, D]
            return t.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)

        y = self.attention_norm(x)
        mixed = self.attend(split(self.query(y)), split(self.key(y)), split(self.value(y)), self.causal)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))
        y = self.feed_forward_norm(x)
        hidden = F.gelu(self.expand(y)) if self.gate is None else F.silu(self.gate(y)) * self.expand(y)
        return x + self.contract(hidden)


class Transformer(nn.Module):
    """[B, S, width] -> [B, S, width]: blocks and a final LayerNorm."""

    def __init__(self, width: int, heads: int, layers: int, attention: str, feed_forward: str, *, causal: bool) -> None:
        super().__init__()
        blocks = (Block(width, heads, attention, feed_forward, causal=causal) for _ in range(layers))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.blocks(x))
