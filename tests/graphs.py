"""Small graphs for tests: evaluate one by the NumPy references, and run a pass with every check around it."""

from __future__ import annotations

import copy

import numpy as np

from engine import passes
from engine.graph import Graph, Value, verify

RANDOM_SEED = 7


def evaluate(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of `graph`, each node by its reference."""
    values: dict[Value, np.ndarray] = dict(zip(graph.inputs, inputs, strict=True))

    def read(value: Value | None) -> np.ndarray | None:
        if value is None:
            return None
        return values[value] if value.data is None else value.data

    for node in graph.nodes:
        result = node.op.reference(*map(read, node.inputs), **node.attributes)
        results = result if isinstance(result, tuple) else (result,)
        values |= zip(node.outputs, results, strict=True)
    return [read(v) for v in graph.outputs]


def random_inputs(graph: Graph, seed: int = RANDOM_SEED) -> list[np.ndarray]:
    """Normal floats, small non-negative ints, fair bools."""
    rng = np.random.default_rng(seed)

    def one(value: Value) -> np.ndarray:
        if value.dtype == "bool":
            return rng.random(value.shape) > 0.5
        if value.dtype.startswith("int"):
            return rng.integers(0, 3, value.shape).astype(value.dtype)
        return rng.standard_normal(value.shape).astype(value.dtype)

    return [one(v) for v in graph.inputs]


def ops(graph: Graph) -> list[str]:
    """Names of the ops in order."""
    return [n.op.name for n in graph.nodes]


def run_pass(graph: Graph, *names: str, inputs: list[np.ndarray] | None = None) -> list[int]:
    """Run passes; verify and compare the outputs with those before after each. Returns how many changes each made."""
    inputs = random_inputs(graph) if inputs is None else inputs
    before = [a.copy() for a in evaluate(graph, inputs)]
    types = [v.type for v in graph.outputs]
    counts = []
    for name in names:
        counts.append(passes.PASSES[name].run(graph))
        verify.graph(graph)
        assert [v.type for v in graph.outputs] == types
        for new, old in zip(evaluate(graph, inputs), before, strict=True):
            # The references compute in float64 and round once a node: fused nodes round less often.
            np.testing.assert_allclose(new, old, rtol=2e-5, atol=2e-6)
    return counts


def independent(graph: Graph) -> Graph:
    """A deep copy."""
    return copy.deepcopy(graph)
