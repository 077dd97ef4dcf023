"""Small graphs for tests: evaluate one by the NumPy references, and run a pass with every check around it."""

from __future__ import annotations

import copy

import ml_dtypes
import numpy as np

from engine import dtypes, passes
from engine.graph import Graph, Origin, Value, verify

RANDOM_SEED = 7
# The references round once a node. A pass that fuses or regroups nodes saves or moves a rounding, each of which is half
# a unit in the last place of the largest element, and the nodes behind it amplify the difference. A hundred units leave
# room for the tens of nodes in a row that models have; another value, or another order of axes, differs by 10%.
UNITS = 100


def evaluate(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of `graph`, each node by its reference."""
    values = evaluate_all(graph, inputs)
    return [v.elements if v.is_constant else values[v] for v in graph.outputs]


def evaluate_all(graph: Graph, inputs: list[np.ndarray]) -> dict[Value, np.ndarray]:
    """The inputs of `graph` and what its nodes make, each node by its reference."""
    values: dict[Value, np.ndarray] = dict(zip(graph.inputs, inputs, strict=True))

    def read(value: Value | None) -> np.ndarray | None:
        if value is None:
            return None
        return values[value] if value.data is None else value.data

    for node in graph.nodes:
        result = node.op.reference(*map(read, node.inputs), **node.attributes)
        results = result if isinstance(result, tuple) else (result,)
        values |= zip(node.outputs, results, strict=True)
    return values


def _all_values(graph: Graph, inputs: list[np.ndarray]) -> dict[Value, np.ndarray]:
    return evaluate_all(graph, inputs) | {v: v.elements for v in graph.constants()}


def exported_values(graph: Graph, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The elements of each exported value of a graph that no pass has changed."""
    values = _all_values(graph, inputs)
    return {v.origin.value: array for v, array in values.items() if v.origin is not None and not v.origin.view}


def check_origins(
    graph: Graph, inputs: list[np.ndarray], exported: dict[str, np.ndarray], *, exact: bool, where: str
) -> None:
    """AssertionError unless each value with an origin has the elements of the exported one under its view.

    Args:
        graph: after some passes.
        inputs: of the graph.
        exported: the exported values by name.
        exact: to the bit; otherwise floats may differ by `UNITS`.
        where: for the message.
    """
    for value, array in _all_values(graph, inputs).items():
        if value.origin is None:
            continue
        expected = value.origin.apply(exported[value.origin.value])
        message = f"{where}: {value} is not {value.origin}"
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype), message
        if exact or dtypes.dtype(value.dtype).kind != "float":
            np.testing.assert_array_equal(array, expected, err_msg=message)
            continue
        wide = expected.astype(np.float64)
        largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)
        room = UNITS * float(ml_dtypes.finfo(expected.dtype).eps) * float(largest)
        np.testing.assert_allclose(array.astype(np.float64), wide, rtol=0, atol=room, err_msg=message)


def _named(graph: Graph) -> None:
    """Let each value be an exported one, as if each node were a call of ATen."""
    for value in (*graph.inputs, *graph.constants(), *(v for node in graph.nodes for v in node.outputs)):
        value.trace_to(Origin(value.name))


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
    """Run passes; after each, verify, and compare outputs and values with an origin with those before. Returns how many
    changes each made.
    """
    inputs = random_inputs(graph) if inputs is None else inputs
    before = [a.copy() for a in evaluate(graph, inputs)]
    types = [v.type for v in graph.outputs]
    _named(graph)
    exported = exported_values(graph, inputs)
    counts = []
    for name in names:
        counts.append(passes.PASSES[name].run(graph))
        verify.graph(graph)
        assert [v.type for v in graph.outputs] == types
        for new, old in zip(evaluate(graph, inputs), before, strict=True):
            # The references compute in float64 and round once a node: fused nodes round less often.
            np.testing.assert_allclose(new, old, rtol=2e-5, atol=2e-6)
        check_origins(graph, inputs, exported, exact=False, where=name)
    return counts


def independent(graph: Graph) -> Graph:
    """A deep copy."""
    return copy.deepcopy(graph)
