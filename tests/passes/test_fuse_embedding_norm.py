"""Gathers and the norm of their sum become one node; for each guard one that almost matches and must not."""

from __future__ import annotations

import numpy as np
import pytest

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from engine.passes import PIPELINE
from engine.targets.cpu import CPU
from tests.exports import export_model
from tests.graphs import ops, run_pass
from tests.passes.test_fuse import weight

NORMS = pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
WIDTH = 8


def start(dtype: str = "float32") -> Graph:
    """Inputs: ids [2, 3], types [1, 3], rows [3, 8], more rows [2, 3, 8]."""
    g = Graph()
    for name, type_ in {
        "ids": TensorType("int64", (2, 3)),
        "types": TensorType("int64", (1, 3)),
        "rows": TensorType(dtype, (3, WIDTH)),
        "more": TensorType(dtype, (2, 3, WIDTH)),
    }.items():
        g.add_input(name, type_)
    return g


def words(g: Graph) -> Value:
    """[2, 3, 8]"""
    return g.emit("embedding", [weight(g, 5, WIDTH), g.inputs[0]])


def kinds(g: Graph) -> Value:
    """[1, 3, 8]"""
    return g.emit("embedding", [weight(g, 3, WIDTH, seed=1), g.inputs[1]])


def norm(g: Graph, op: str, x: Value, addend: Value | None = None, axes: int = 1) -> Value:
    """With all affine operands that the op has."""
    affine = [weight(g, *x.shape[-axes:], seed=n) for n in range(2 if op == "layer_norm" else 1)]
    return g.emit(op, [x, *affine, addend], axes=axes, epsilon=1e-3)


def add(g: Graph, *values: Value) -> Value:
    total = values[0]
    for value in values[1:]:
        total = g.emit("add", [total, value])
    return total


SUMS = {
    "word": words,
    "word_type": lambda g: add(g, words(g), kinds(g)),
    "word_rows": lambda g: add(g, words(g), g.inputs[2]),
    "rows_word": lambda g: add(g, g.inputs[2], words(g)),
    "word_type_rows": lambda g: add(g, words(g), kinds(g), g.inputs[2]),
    "word_rows_type": lambda g: add(g, words(g), g.inputs[2], kinds(g)),
    "rows_word_type": lambda g: add(g, g.inputs[2], words(g), kinds(g)),
    "rows_of_word_type": lambda g: g.emit("add", [g.inputs[2], add(g, words(g), kinds(g))]),
    "word_rows_more": lambda g: add(g, words(g), g.inputs[2], g.inputs[3]),
    "more_rows_word": lambda g: add(g, g.inputs[3], g.inputs[2], words(g)),
    "word_word_word": lambda g: add(g, words(g), words(g), words(g)),
}


@NORMS
@pytest.mark.parametrize("spelling", SUMS)
def test_the_beginning_of_an_encoder_becomes_one_node(op, spelling):
    g = start()
    g.outputs = [norm(g, op, SUMS[spelling](g))]
    before = g.nodes[-1]
    assert run_pass(g, "fuse_embedding_norm") == [1]
    assert ops(g) == (["add", "embedding_norm"] if spelling == "more_rows_word" else ["embedding_norm"])
    node = g.nodes[-1]
    assert (node.attributes["norm"], node.attributes["epsilon"]) == (op, 1e-3)
    assert node["weight"] is before["weight"]
    assert node["bias"] is (before["bias"] if op == "layer_norm" else None)


def test_of_four_terms_the_last_ones_join_if_a_gather_is_among_them():
    g = start()
    x = add(g, words(g), kinds(g), g.inputs[2], g.inputs[3])
    g.outputs = [norm(g, "layer_norm", x)]
    assert run_pass(g, "fuse_embedding_norm") == [0]
    g.outputs = [norm(g, "layer_norm", add(g, g.inputs[2], g.inputs[3], words(g), kinds(g)))]
    assert run_pass(g, "fuse_embedding_norm", "dead_code")[0] == 1
    assert ops(g) == ["add", "embedding_norm"]


@NORMS
def test_a_gather_that_others_read_is_added_as_rows(op):
    g = start()
    shared = kinds(g)
    g.outputs = [norm(g, op, add(g, words(g), shared)), shared]
    assert run_pass(g, "fuse_embedding_norm") == [1]
    assert ops(g) == ["embedding", "embedding_norm"]
    assert (g.nodes[1]["second"], g.nodes[1]["second_ids"]) == (shared, None)


def sum_is_read_again(g: Graph, op: str) -> list[Value]:
    total = add(g, words(g), kinds(g))
    return [add(g, norm(g, op, total), total)]


def sum_is_returned(g: Graph, op: str) -> list[Value]:
    total = add(g, words(g), kinds(g))
    return [norm(g, op, total), total]


def only_gather_is_returned(g: Graph, op: str) -> list[Value]:
    rows = words(g)
    return [norm(g, op, rows), rows]


def no_gather(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, add(g, *g.inputs[2:]))]


def over_two_axes(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, words(g), axes=2)]


def norm_adds_already(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, words(g), g.inputs[3])]


def table_of_one_column(g: Graph, op: str) -> list[Value]:
    column = g.emit("embedding", [weight(g, 3, 1), g.inputs[1]])
    return [norm(g, op, add(g, words(g), column))]


def table_of_numbers(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("embedding", [weight(g, 5), g.inputs[0]]))]


def table_of_matrices(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("embedding", [weight(g, 5, 2, WIDTH), g.inputs[0]]))]


def a_number_is_added(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, add(g, words(g), g.scalar(0.5, "float32")))]


def difference(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("sub", [words(g), kinds(g)]))]


def gather_along_the_other_axis(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("gather", [g.inputs[2], weight_of_ids(g)], axis=0))]


def weight_of_ids(g: Graph) -> Value:
    return g.constant(np.zeros((3, WIDTH), np.int64), "where")


@NORMS
@pytest.mark.parametrize(
    "almost",
    [
        sum_is_read_again,
        sum_is_returned,
        only_gather_is_returned,
        no_gather,
        over_two_axes,
        norm_adds_already,
        table_of_one_column,
        table_of_numbers,
        table_of_matrices,
        a_number_is_added,
        difference,
        gather_along_the_other_axis,
    ],
    ids=lambda f: f.__name__,
)
def test_almost_such_a_beginning_is_left_alone(op, almost):
    g = start()
    g.outputs = almost(g, op)
    assert run_pass(g, "fuse_embedding_norm") == [0]


@NORMS
def test_halves_are_left_alone(op):
    g = start("float16")
    table = g.constant(np.ones((5, WIDTH), np.float16), "table")
    rest: list[Value | None] = [None] * (3 if op == "layer_norm" else 2)
    g.outputs = [g.emit(op, [g.emit("embedding", [table, g.inputs[0]]), *rest], axes=1, epsilon=1e-3)]
    assert run_pass(g, "fuse_embedding_norm") == [0]


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.long), 2])
def test_bert_begins_with_one_launch_of_the_same_bits(batch):
    """At a batch the positions are broadcast: the sum is two additions in one pointwise node, then, not one."""
    _model, inputs, exported = export_model("bert-tiny", batch=batch)
    fused = engine.compile(exported, inputs)
    apart = engine.compile(exported, inputs, engine.Config(disable=("fuse_embedding_norm",)))
    assert apart.report().launches - fused.report().launches == 2
    for a, b in zip(fused(*inputs), apart(*inputs), strict=True):
        assert a.equal(b)
    names = [
        step.kernel.variant for step in CPU.bind(fused.lowered, engine.Config()).steps if step.op == "embedding_norm"
    ]
    assert names == ["vector"]


def test_gathers_come_before_residuals():
    assert PIPELINE.index("fuse_embedding_norm") < PIPELINE.index("fuse_add_norm")
