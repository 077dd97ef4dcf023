"""The layers that the models of this folder share. Every function keeps the dtype of its input.

Factors are Python numbers, never NumPy scalars: a float64 scalar of NumPy would turn a float32 array into float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf, expit

if TYPE_CHECKING:
    from torch import nn

Layer = Callable[[np.ndarray], np.ndarray]


def linear(module: nn.Linear) -> Layer:
    """[..., in] -> [..., out] with the weights of `module`, which are not copied."""
    weight, bias = array(module.weight).T, array(module.bias)
    return lambda x: x @ weight + bias


def layer_norm(module: nn.LayerNorm) -> Layer:
    """Over the last axis, with the weights of `module`."""
    weight, bias, epsilon = array(module.weight), array(module.bias), module.eps

    def normalise(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + epsilon) * weight + bias

    return normalise


def relu(x: np.ndarray) -> np.ndarray:
    """The larger of x and 0."""
    return np.maximum(x, 0)


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU in its erf form: x times the normal distribution function of x."""
    scaled: np.ndarray = 0.5 * x * (1 + erf(x * (1 / math.sqrt(2))))
    return scaled


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU in its tanh form, an approximation."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def silu(x: np.ndarray) -> np.ndarray:
    """SiLU: x times its logistic function."""
    scaled: np.ndarray = x * expit(x)
    return scaled


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int, *, keep: np.ndarray | None = None) -> np.ndarray:
    """softmax(Q K^T / sqrt(D)) V in each head.

    Args:
        q: queries [B, S, heads * D].
        k: keys, of the same shape.
        v: values, of the same shape.
        heads: number of heads.
        keep: bool, broadcast to [B, heads, S, S]: False where a token (next to last axis) must not see another one.

    Returns:
        [B, S, heads * D].
    """
    batch, tokens, width = q.shape

    def split(x: np.ndarray) -> np.ndarray:  # [B, S, H * D] -> [B, H, S, D]
        return x.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    scores = split(q) @ split(k).transpose(0, 1, 3, 2) * (1 / math.sqrt(width // heads))
    if keep is not None:
        scores = np.where(keep, scores, -math.inf)
    return (softmax(scores) @ split(v)).transpose(0, 2, 1, 3).reshape(batch, tokens, width)


def array(parameter: Any) -> np.ndarray:
    """The values of a parameter of torch, in the same memory."""
    values: np.ndarray = parameter.detach().numpy()
    return values
