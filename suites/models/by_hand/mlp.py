"""`suites.models.nets.mlp.MLP` in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.models.by_hand.layers import Layer, gelu, gelu_tanh, linear, relu

if TYPE_CHECKING:
    import numpy as np

ACTIVATIONS: dict[tuple[str, str | None], Layer] = {
    ("ReLU", None): relu,
    ("GELU", "none"): gelu,
    ("GELU", "tanh"): gelu_tanh,
}
"""Name of torch's class and its `approximate` -> the same function."""


def forward(model: Any) -> Layer:
    """[N, widths[0]] -> [N, widths[-1]], with the weights of `model`, an `MLP`."""
    linears, others = list(model.layers)[::2], list(model.layers)[1::2]
    steps = [linear(one) for one in linears]
    activations = [ACTIVATIONS[type(one).__name__, getattr(one, "approximate", None)] for one in others]

    def call(x: np.ndarray) -> np.ndarray:
        for step, activation in zip(steps, activations, strict=False):  # none follows the last layer
            x = activation(step(x))
        return steps[-1](x)

    return call
