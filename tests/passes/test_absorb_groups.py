"""Key heads that are repeated for attention: which repetition is read in place, and which is not one."""

from __future__ import annotations

import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

HEADS, GROUPS = 6, 2


def start() -> Graph:
    g = Graph()
    g.add_input("q", TensorType("float32", (3, HEADS, 5, 4)))
    for name in "kv":
        g.add_input(name, TensorType("float32", (3, GROUPS, 7, 4)))
    return g


def repeated(g: Graph, x: Value, *, axis=2) -> Value:
    """Each head HEADS / GROUPS times in a row; with `axis=1` the row of heads so many times."""
    apart = list(x.shape)
    apart.insert(axis, 1)
    wide = list(apart)
    wide[axis] = HEADS // GROUPS
    y = g.emit("reshape", [x], shape=tuple(apart))
    y = g.emit("expand", [y], shape=tuple(wide))
    return g.emit("reshape", [y], shape=(x.shape[0], HEADS, *x.shape[2:]))


def attention(g: Graph, key: Value, value: Value) -> None:
    g.outputs = [g.emit("attention", [g.inputs[0], key, value, None], scale=0.5)]


@pytest.mark.parametrize("causal", [False, True])
def test_heads_repeated_one_by_one_are_read_in_place(causal):
    g = start()
    key, value = (repeated(g, x) for x in g.inputs[1:])
    g.outputs = [g.emit("attention", [g.inputs[0], key, value, None], scale=0.5, causal=causal)]
    assert run_pass(g, "absorb_groups", "dead_code") == [1, 6]
    assert ops(g) == ["attention"]


def test_a_single_head_that_is_expanded_is_read_in_place():
    g = Graph()
    g.add_input("q", TensorType("float32", (3, HEADS, 5, 4)))
    wide = [
        g.emit("expand", [g.add_input(name, TensorType("float32", (3, 1, 7, 4)))], shape=(3, HEADS, 7, 4))
        for name in "kv"
    ]
    attention(g, *wide)
    assert run_pass(g, "absorb_groups", "dead_code") == [1, 2]


def test_heads_repeated_as_a_whole_row_stay():
    """[a, b, a, b, a, b], where groups would be [a, a, a, b, b, b]."""
    g = start()
    attention(g, *(repeated(g, x, axis=1) for x in g.inputs[1:]))
    assert run_pass(g, "absorb_groups") == [0]


def test_keys_alone_stay():
    g = start()
    value = g.add_input("wide", TensorType("float32", (3, HEADS, 7, 4)))
    attention(g, repeated(g, g.inputs[1]), value)
    assert run_pass(g, "absorb_groups") == [0]


def test_keys_and_values_of_different_groups_stay():
    g = start()
    one = g.add_input("one", TensorType("float32", (3, 1, 7, 4)))
    attention(g, repeated(g, g.inputs[1]), g.emit("expand", [one], shape=(3, HEADS, 7, 4)))
    assert run_pass(g, "absorb_groups") == [0]


def test_an_expanded_batch_is_no_group():
    g = start()
    parts = [g.add_input(f"{name}1", TensorType("float32", (1, HEADS, 7, 4))) for name in "kv"]
    attention(g, *(g.emit("expand", [x], shape=(3, HEADS, 7, 4)) for x in parts))
    assert run_pass(g, "absorb_groups") == [0]


def test_a_reshape_that_mixes_rows_and_heads_stays():
    g = start()
    mixed = []
    for x in g.inputs[1:]:
        y = g.emit("reshape", [x], shape=(3, GROUPS, 1, 7, 4))
        y = g.emit("expand", [y], shape=(3, GROUPS, 3, 7, 4))
        mixed.append(g.emit("reshape", [y], shape=(3, HEADS, 14, 2)))
    g.inputs[0].type = TensorType("float32", (3, HEADS, 5, 2))
    attention(g, *mixed)
    assert run_pass(g, "absorb_groups") == [0]
