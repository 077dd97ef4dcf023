"""`suites.models.nets.bert.Bert` in NumPy: the encoder as published, post-norm, with its pooler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from suites.models.by_hand.layers import array, attention, gelu, layer_norm, linear


def forward(model: Any) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Ids [B, S] and mask [B, S], both int64 -> (last hidden state [B, S, width], pooled [B, width]).

    The weights are those of `model`, a `Bert`. Every text must have a token that the mask keeps.
    """
    parts = model.bert
    tables = parts.embeddings
    words, positions = array(tables.word_embeddings.weight), array(tables.position_embeddings.weight)
    kind = array(tables.token_type_embeddings.weight)[0]
    norm, pooler = layer_norm(tables.LayerNorm), linear(parts.pooler.dense)
    layers = [_layer(one, parts.config.num_attention_heads) for one in parts.encoder.layer]

    def call(ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keep = (mask != 0)[:, None, None, :]
        x = norm(words[ids] + kind + positions[: ids.shape[1]])
        for layer in layers:
            x = layer(x, keep)
        return x, np.tanh(pooler(x[:, 0]))

    return call


def _layer(layer: Any, heads: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    inside, after = layer.attention.self, layer.attention.output
    query, key, value = (linear(one) for one in (inside.query, inside.key, inside.value))
    output, attention_norm = linear(after.dense), layer_norm(after.LayerNorm)
    expand, contract = linear(layer.intermediate.dense), linear(layer.output.dense)
    output_norm = layer_norm(layer.output.LayerNorm)

    def call(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
        x = attention_norm(x + output(attention(query(x), key(x), value(x), heads, keep=keep)))
        return output_norm(x + contract(gelu(expand(x))))

    return call
