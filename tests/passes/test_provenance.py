"""Each value that names an exported value has its elements: after every pass alone, and all through the pipeline.

The exported values are those of the graph before passes, computed by the references.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from engine import exporter, passes
from engine.graph import Graph, Value
from engine.graph.origin import MOST_STEPS, Origin, common_module
from engine.ops import TensorType
from suites import models
from tests.graphs import check_origins, evaluate_all, exported_values

# These passes change which nodes compute, and not what a node computes: values keep their bits.
EXACT = frozenset({"fold_constants", "common_subexpressions", "drop_identities", "simplify_views", "dead_code"})
# The share of the values that nodes make in the finished graph that must name an exported value. Those without are
# products over merged weights, pooling that a norm was moved behind, and what a handler computes on the way to a mask.
FLOOR = 0.9
FLOORS = {
    "cifar10-cnn-tiny": 0.85,
    "minilm-tiny": 0.88,
}  # each: see above; small graphs, where two values count for more
SOME = ("attention-tiny", "cifar10-cnn-tiny", "qwen3-tiny", "transformer-tiny")
MODELS = [
    pytest.param(name, marks=() if name in SOME else pytest.mark.long)
    for name in models.names()
    if name.endswith("-tiny")
]


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
    exported = exporter.export_with_torch(model, inputs)

    def fresh() -> Graph:
        return exporter.translate(exported)

    arrays = [x.numpy() for x in inputs]
    return Case(request.param, fresh, arrays, exported_values(fresh(), arrays))


def test_an_origin_is_extended_by_views_and_undone_through_them():
    """Whichever views follow each other: undone, they give the first value's elements back."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    graph = Graph()
    first = graph.add_input("x", TensorType("float32", x.shape))
    first.trace_to(Origin("x"))
    a = graph.emit("permute", [first], axes_order=(2, 0, 1))
    b = graph.emit("permute", [a], axes_order=(2, 1, 0))
    c = graph.emit("reshape", [b], shape=(3, 8))
    d = graph.emit("reshape", [c], shape=(3, 2, 2, 2))
    e = graph.emit("slice", [d], axis=1, start=1, stop=2, step=1)
    f = graph.emit("expand", [e], shape=(5, 3, 1, 2, 2))
    assert [step.op for step in f.origin.view] == ["permute", "reshape", "slice", "expand"], "neighbours are joined"
    check_origins(graph, [x], {"x": x}, exact=True, where="extended")
    back = graph.emit("permute", [a], axes_order=(1, 2, 0))
    assert back.origin.view == (), "turned there and back"


def test_what_a_named_view_is_of_gets_a_name_where_all_its_elements_are_there():
    def named(op: str, **attributes: object) -> Value:
        """x of an op that is `op` of x, where only the result is an exported value."""
        graph = Graph()
        x = graph.emit("relu", [graph.add_input("input", TensorType("float32", (1, 3, 4)))])
        result = graph.emit(op, [x], **attributes)
        result.trace_to(Origin("y"))
        data = np.arange(12, dtype=np.float32).reshape(1, 3, 4) + 1
        _x, *values = evaluate_all(graph, [data]).values()
        check_origins(graph, [data], {"y": values[-1]}, exact=True, where=op)
        return x

    assert named("permute", axes_order=(1, 2, 0)).origin.view[0].op == "permute"
    assert named("reshape", shape=(6, 2)).origin.view[0].op == "reshape"
    assert [step.op for step in named("expand", shape=(2, 5, 3, 4)).origin.view] == ["slice", "slice", "reshape"]
    assert named("expand", shape=(0, 3, 4)).origin is None, "no element of it is in the result"
    assert named("slice", axis=1, start=0, stop=2, step=1).origin is None


def test_of_two_origins_the_one_with_fewer_views_between_is_kept():
    graph = Graph()
    x = graph.add_input("x", TensorType("float32", (2, 3)))
    x.trace_to(Origin("x"))
    turned = graph.emit("permute", [x], axes_order=(1, 0))
    turned.trace_to(Origin("t"))
    turned.trace_to(Origin("other"))
    assert (turned.origin.value, x.origin.value) == ("t", "x")


def test_a_chain_of_views_that_no_file_may_hold_names_nothing():
    graph = Graph()
    value = graph.add_input("x", TensorType("float32", (64,)))
    value.trace_to(Origin("x"))
    for stop in range(63, 63 - MOST_STEPS, -1):
        value = graph.emit("slice", [value], axis=0, start=0, stop=stop, step=1)
        assert value.origin is not None
    assert graph.emit("slice", [value], axis=0, start=0, stop=1, step=1).origin is None


def test_modules_share_whole_names():
    assert common_module(["a.layer.10.x", "a.layer.10.y"]) == "a.layer.10"
    assert common_module(["a.layer.1", "a.layer.10"]) == "a.layer"
    assert common_module(["a", ""]) == common_module([]) == ""


def test_inputs_and_outputs_of_an_exported_graph_are_exported_values(case):
    graph = case.fresh()
    assert all(v.origin is not None and not v.origin.view for v in (*graph.inputs, *graph.outputs))


def test_each_pass_alone_keeps_what_values_equal(case):
    for each in passes.PASSES.values():
        graph = case.fresh()
        if each.run(graph):
            check_origins(graph, case.arrays, case.known, exact=each.name in EXACT, where=f"{case.name}, {each.name}")


def test_the_pipeline_keeps_what_values_equal_and_leaves_few_without_an_origin(case):
    graph = case.fresh()
    for each in passes.pipeline("cpu"):
        if passes.PASSES[each].run(graph):
            check_origins(graph, case.arrays, case.known, exact=False, where=f"{case.name}, {each}")
    assert covered(graph) >= FLOORS.get(case.name, FLOOR)
