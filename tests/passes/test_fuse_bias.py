"""Linears whose biases the model adds afterwards: the biases are taken in before linears are merged."""

from __future__ import annotations

import numpy as np

from engine.graph import Graph
from engine.ops import TensorType
from tests.graphs import ops, run_pass


def linears(*biases):
    """A linear of one input for each bias, which is added after it."""
    rng = np.random.default_rng(3)
    g = Graph()
    x = g.add_input("x", TensorType("float32", (5, 4)))
    for bias in biases:
        weight = g.constant(rng.standard_normal((6, 4)).astype(np.float32))
        y = g.emit("linear", {"x": x, "weight": weight})
        g.outputs.append(g.emit("add", [y, bias if not isinstance(bias, np.ndarray) else g.constant(bias)]))
    return g


def test_linears_with_different_biases_are_merged():
    rng = np.random.default_rng(4)
    g = linears(*rng.standard_normal((3, 6)).astype(np.float32))
    assert run_pass(g, "fuse_bias", "merge_linear") == [3, 2]
    assert ops(g) == ["linear", "slice", "slice", "slice"]


def test_what_is_no_bias_stays():
    g = linears(np.ones((5, 6), np.float32), np.ones((5, 1), np.float32), np.ones((), np.float32))
    assert run_pass(g, "fuse_bias") == [0]
