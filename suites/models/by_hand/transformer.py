"""`suites.models.nets.transformer.Transformer` in NumPy. Its spellings of attention compute one function."""

from __future__ import annotations

from typing import Any

import numpy as np

from suites.models.by_hand.layers import Layer, attention, gelu, layer_norm, linear, silu


def forward(model: Any) -> Layer:
    """[B, S, width] -> the same, with the weights of `model`, a `Transformer`."""
    blocks, norm = [_block(one) for one in model.blocks], layer_norm(model.norm)

    def call(x: np.ndarray) -> np.ndarray:
        for block in blocks:
            x = block(x)
        return norm(x)

    return call


def _block(block: Any) -> Layer:
    query, key, value, output = (linear(one) for one in (block.query, block.key, block.value, block.output))
    attention_norm, feed_forward_norm = layer_norm(block.attention_norm), layer_norm(block.feed_forward_norm)
    expand, contract = linear(block.expand), linear(block.contract)
    gate = None if block.gate is None else linear(block.gate)

    def call(x: np.ndarray) -> np.ndarray:
        y, tokens = attention_norm(x), x.shape[1]
        keep = np.tri(tokens, dtype=bool) if block.causal else None
        x = x + output(attention(query(y), key(y), value(y), block.heads, keep=keep))
        y = feed_forward_norm(x)
        return x + contract(gelu(expand(y)) if gate is None else silu(gate(y)) * expand(y))

    return call
