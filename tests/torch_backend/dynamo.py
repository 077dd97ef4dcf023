"""What the tests of torch.compile(model, backend="engine") share: models, and a comparison with eager."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional


def compiled(model, **options):
    return torch.compile(model, backend="engine", options=options)


def check(model, *calls, **options):
    """Each of `calls` against eager, which works on copies of the model and of the inputs."""
    other, found = copy.deepcopy(model), compiled(model, **options)
    with torch.no_grad():
        for call in calls:
            expected = other(*copy.deepcopy(call))
            torch.testing.assert_close(found(*call), expected)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Block(nn.Module):
    """A layer of attention with a table of positions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.norm, self.out = nn.Linear(16, 48), nn.LayerNorm(16), nn.Linear(16, 16)
        self.register_buffer("position", torch.randn(64, 16))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x + self.position[:length])).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = (
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )
        return x + functional.gelu(self.out(y))
