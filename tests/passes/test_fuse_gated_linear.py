"""Gated layers: both spellings must fuse; for each guard one that almost matches and must not."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, Value
from tests.graphs import ops, run_pass
from tests.passes.test_fuse import linear, start, weight


def activate(g: Graph, name: str, x: Value) -> Value:
    op = name.removesuffix("_tanh")
    return g.emit(op, [x], **({"approximate": "tanh"} if name == "gelu_tanh" else {}))


def bias(g: Graph, features: int, seed: int) -> Value:
    return g.constant(np.random.default_rng(seed).standard_normal(features).astype(np.float32), "b")


def half(g: Graph, x: Value, which: int, axis: int = -1, step: int = 1) -> Value:
    axis %= len(x.shape)
    n = x.shape[axis] // 2
    return g.emit("slice", [x], axis=axis, start=which * n, stop=(which + 1) * n, step=step)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"])
@pytest.mark.parametrize("biases", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("transposed", [False, True])
def test_two_linears_of_one_value_become_a_gated_one(activation, biases, transposed):
    g = start((2, 3, 4))
    x = g.inputs[0]
    shape = (6, 4) if transposed else (4, 6)
    gate, up = (
        linear(g, x, weight(g, *shape, seed=n), bias(g, 6, n) if n in biases else None, transpose_weight=transposed)
        for n in (0, 1)
    )
    g.outputs = [g.emit("mul", [up, activate(g, activation, gate)])]
    assert run_pass(g, "fuse_gated_linear", "dead_code")[0] == 1
    assert ops(g) == ["gated_linear"]
    assert g.nodes[0].attributes == {
        "transpose_weight": transposed,
        "activation": activation,
        "compute": "element",
    }


@pytest.mark.parametrize("gate_half", [0, 1])
@pytest.mark.parametrize("transposed", [False, True])
def test_halves_of_one_linear_become_a_gated_one(gate_half, transposed):
    g = start((5, 4))
    shape = (6, 4) if transposed else (4, 6)
    both = linear(g, g.inputs[0], weight(g, *shape), bias(g, 6, 3), transpose_weight=transposed)
    g.outputs = [g.emit("mul", [activate(g, "gelu", half(g, both, gate_half)), half(g, both, 1 - gate_half)])]
    assert run_pass(g, "fuse_gated_linear", "dead_code")[0] == 1
    assert ops(g) == ["gated_linear"]


def two(g: Graph, **of_gate) -> tuple[Value, Value]:
    x = g.inputs[0]
    return linear(g, x, weight(g, 6, 4), **of_gate), linear(g, x, weight(g, 6, 4, seed=1))


def gated(g: Graph, gate: Value, up: Value) -> list[Value]:
    return [g.emit("mul", [activate(g, "silu", gate), up])]


def also_returned(g: Graph) -> list[Value]:
    gate, up = two(g)
    return [*gated(g, gate, up), gate]


def parts(g: Graph, gate: tuple[int, int], up: tuple[int, int], axis: int = 1) -> list[Value]:
    y = linear(g, g.inputs[1], weight(g, 6, 4))
    return gated(g, *(g.emit("slice", [y], axis=axis, start=a, stop=b, step=1) for a, b in (gate, up)))


ALMOST = {
    "two values": lambda g: gated(g, two(g)[0], linear(g, g.inputs[4], weight(g, 6, 4))),
    "a gate that is scaled": lambda g: gated(g, *two(g, alpha=2.0)),
    "a gate with a residual": lambda g: gated(g, *two(g, residual=g.inputs[2])),
    "a gate with an activation": lambda g: gated(g, *two(g, activation="relu")),
    "one linear twice": lambda g: gated(g, *[two(g)[0]] * 2),
    "one feature that broadcasts": lambda g: gated(g, two(g)[0], linear(g, g.inputs[0], weight(g, 1, 4))),
    "weights that lie differently": lambda g: gated(
        g, two(g)[0], linear(g, g.inputs[0], weight(g, 4, 6), transpose_weight=False)
    ),
    "a weight that is an input": lambda g: gated(g, two(g)[0], linear(g, g.inputs[0], g.inputs[3])),
    "a gate that is also returned": also_returned,
    "halves of another axis": lambda g: parts(g, (0, 2), (2, 4), axis=0),
    "the same half twice": lambda g: parts(g, (0, 3), (0, 3)),
    "parts that are no halves": lambda g: parts(g, (0, 2), (2, 4)),
}


@pytest.mark.parametrize("almost", ALMOST)
def test_almost_a_gated_linear_is_left_alone(almost):
    g = start((3, 4), (4, 4), (3, 6), (6, 4), (3, 4))
    g.outputs = ALMOST[almost](g)
    assert run_pass(g, "fuse_gated_linear") == [0]
