"""Forwards of models in NumPy, as one writes them by hand. Each takes the weights of a module and imports no torch.

Every function keeps the dtype of its input: factors are Python numbers, because a float64 scalar of NumPy would turn a
float32 array into float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf, expit

Layer = Callable[[np.ndarray], np.ndarray]


def make_mlp(model: Any) -> Layer:
    """[N, widths[0]] -> [N, widths[-1]], with the weights of `model`, a `suites.models.nets.mlp.MLP`."""
    steps = [_linear(one) for one in list(model.layers)[::2]]
    # name of torch's class and its `approximate` -> the same function
    known = {("ReLU", None): _relu, ("GELU", "none"): _gelu, ("GELU", "tanh"): _gelu_tanh}
    activations = [known[type(one).__name__, getattr(one, "approximate", None)] for one in list(model.layers)[1::2]]

    def call(x: np.ndarray) -> np.ndarray:
        for step, activation in zip(steps, activations, strict=False):  # none follows the last layer
            x = activation(step(x))
        return steps[-1](x)

    return call


def make_transformer(model: Any) -> Layer:
    """[B, S, width] -> the same, with the weights of `model`, a `suites.models.nets.transformer.Transformer`."""
    blocks, norm = [_block(one) for one in model.blocks], _layer_norm(model.norm)

    def call(x: np.ndarray) -> np.ndarray:
        for block in blocks:
            x = block(x)
        return norm(x)

    return call


def _block(block: Any) -> Layer:
    query, key, value, output = (_linear(one) for one in (block.query, block.key, block.value, block.output))
    attention_norm, feed_forward_norm = _layer_norm(block.attention_norm), _layer_norm(block.feed_forward_norm)
    expand, contract = _linear(block.expand), _linear(block.contract)
    gate = None if block.gate is None else _linear(block.gate)

    def call(x: np.ndarray) -> np.ndarray:
        y, tokens = attention_norm(x), x.shape[1]
        keep = np.tri(tokens, dtype=bool) if block.causal else None
        x = x + output(_attend(query(y), key(y), value(y), block.heads, keep))
        y = feed_forward_norm(x)
        hidden = expand(y)
        if gate is None:
            return x + contract(_gelu(hidden))
        gated = gate(y)
        return x + contract(gated * expit(gated) * hidden)

    return call


def make_bert(model: Any) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Ids [B, S] and mask [B, S], both int64 -> (last hidden state [B, S, width], pooled [B, width]).

    The weights are those of `model`, a `suites.models.nets.bert.Bert`. The mask must keep a token of every text.
    """
    parts = model.bert
    tables = parts.embeddings
    words, positions = _array(tables.word_embeddings.weight), _array(tables.position_embeddings.weight)
    kind = _array(tables.token_type_embeddings.weight)[0]
    norm, pooler = _layer_norm(tables.LayerNorm), _linear(parts.pooler.dense)
    layers = [_bert_layer(one, parts.config.num_attention_heads) for one in parts.encoder.layer]

    def call(ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keep = (mask != 0)[:, None, None, :]
        x = norm(words[ids] + kind + positions[: ids.shape[1]])
        for layer in layers:
            x = layer(x, keep)
        return x, np.tanh(pooler(x[:, 0]))

    return call


def _bert_layer(layer: Any, heads: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    inside, after = layer.attention.self, layer.attention.output
    query, key, value = (_linear(one) for one in (inside.query, inside.key, inside.value))
    output, attention_norm = _linear(after.dense), _layer_norm(after.LayerNorm)
    expand, contract = _linear(layer.intermediate.dense), _linear(layer.output.dense)
    output_norm = _layer_norm(layer.output.LayerNorm)

    def call(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
        x = attention_norm(x + output(_attend(query(x), key(x), value(x), heads, keep)))
        return output_norm(x + contract(_gelu(expand(x))))

    return call


def _linear(module: Any) -> Layer:
    weight, bias = _array(module.weight).T, _array(module.bias)
    return lambda x: x @ weight + bias


def _layer_norm(module: Any) -> Layer:
    weight, bias, epsilon = _array(module.weight), _array(module.bias), module.eps

    def normalise(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + epsilon) * weight + bias

    return normalise


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _gelu(x: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = 0.5 * x * (1 + erf(x * (1 / math.sqrt(2))))
    return scaled


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int, keep: np.ndarray | None) -> np.ndarray:
    """softmax(Q K^T / sqrt(D)) V in each head, of [B, S, heads * D] each.

    `keep` is bool, broadcast to [B, heads, S, S]: False where a token (next to last axis) must not see another one.
    """
    batch, tokens, width = q.shape

    def split(x: np.ndarray) -> np.ndarray:  # [B, S, H * D] -> [B, H, S, D]
        return x.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    scores = split(q) @ split(k).transpose(0, 1, 3, 2) * (1 / math.sqrt(width // heads))
    if keep is not None:
        scores = np.where(keep, scores, -math.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return (weights @ split(v)).transpose(0, 2, 1, 3).reshape(batch, tokens, width)


def _array(parameter: Any) -> np.ndarray:
    """The values of a parameter of torch, in the same memory."""
    values: np.ndarray = parameter.detach().numpy()
    return values
