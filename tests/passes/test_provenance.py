"""Each value that names an exported value has its elements: after every pass alone, and all through the pipeline.

The exported values are those of the graph before passes, computed by the references.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from engine import exporter, passes
from engine.graph import Graph
from engine.graph.origin import MOST_STEPS, Origin, common_module, step_of, undo
from engine.ops import TensorType
from suites import models
from tests.graphs import check_origins, exported_values

# These passes change which nodes compute, and not what a node computes: values keep their bits.
EXACT = frozenset({"fold_constants", "common_subexpressions", "drop_identities", "simplify_views", "dead_code"})
# The share of the values that nodes make in the finished graph that must name an exported value. Those without are
# products over merged weights, pooling that a norm was moved behind, and what a handler computes on the way to a mask.
FLOOR = 0.9
FLOORS = {"cifar10-cnn-tiny": 0.85, "minilm-tiny": 0.88}  # each: see above; small graphs, where two values count for more
MODELS = [name for name in models.names() if name.endswith("-tiny")]


def covered(graph: Graph) -> float:
    """The share of the values that nodes make which name an exported value."""
    made = [value for node in graph.nodes for value in node.outputs]
    return sum(value.origin is not None for value in made) / len(made)


class Case(NamedTuple):
    """A model.

    Attributes:
        name: the model's name.
        fresh: lowers it to a graph that no pass has changed; a copy of a graph would be as deep as the model.
        arrays: its inputs.
        known: its exported values.
    """

    name: str
    fresh: Callable[[], Graph]
    arrays: list[np.ndarray]
    known: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> Case:
    """Each tiny model."""
    model, inputs = models.get(request.param).build()
    captured = exporter.captured(model, inputs)

    def fresh() -> Graph:
        return exporter.lowered(captured).graph

    arrays = [x.numpy() for x in inputs]
    return Case(request.param, fresh, arrays, exported_values(fresh(), arrays))


def test_inputs_and_outputs_of_an_exported_graph_are_exported_values(case):
    graph = case.fresh()
    assert all(v.origin is not None and not v.origin.view for v in (*graph.inputs, *graph.outputs))
    assert len({v.origin.value for v in (*graph.inputs, *graph.outputs)}) >= len(graph.inputs)


def test_each_pass_alone_keeps_what_values_equal(case):
    for each in passes.PASSES.values():
        graph = case.fresh()
        if each.run(graph):
            check_origins(graph, case.arrays, case.known, exact=each.name in EXACT, where=f"{case.name}, {each.name}")


def test_the_pipeline_keeps_what_values_equal_and_leaves_few_without_an_origin(case):
    graph = case.fresh()
    for each in passes.PIPELINE:
        if passes.PASSES[each].run(graph):
            check_origins(graph, case.arrays, case.known, exact=False, where=f"{case.name}, {each}")
    assert covered(graph) >= FLOORS.get(case.name, FLOOR)
