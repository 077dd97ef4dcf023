"""The graph verifier finds each kind of damage."""

from __future__ import annotations

import pytest

import engine
from engine.errors import VerificationError
from engine.graph import Graph, Node, Value, verify
from engine.ops import TensorType
from tests import messages


def good() -> Graph:
    g = Graph()
    x = g.add_input("x", TensorType("float32", (2, 3)))
    g.outputs = [g.emit("relu", [g.emit("neg", [x])])]
    return g


def break_order(g: Graph) -> None:
    g.nodes.reverse()


def break_type(g: Graph) -> None:
    g.nodes[0].output.type = TensorType("float32", (3, 2))


def damaged(node: Node, *inputs: Value | None, **attributes: object) -> Node:
    """`node` with other inputs and attributes; `Graph.emit` would refuse it."""
    broken = Node(node.op, inputs, {**node.attributes, **attributes}, node.source)
    broken.outputs = node.outputs
    node.output.node = broken
    return broken


def break_attributes(g: Graph) -> None:
    g.nodes[0] = damaged(g.nodes[0], g.inputs[0], speed=1)


def break_arity(g: Graph) -> None:
    g.nodes[0] = damaged(g.nodes[0], g.inputs[0], g.inputs[0])


def break_required_input(g: Graph) -> None:
    g.nodes[0] = damaged(g.nodes[0], None)


def break_output(g: Graph) -> None:
    g.outputs = [Value("stray", TensorType("float32", (2, 3)))]


def break_names(g: Graph) -> None:
    g.nodes[1].output.name = g.nodes[0].output.name


def test_a_good_graph_verifies():
    verify.graph(good())


@pytest.mark.parametrize(
    "damage",
    [break_order, break_type, break_attributes, break_arity, break_required_input, break_output, break_names],
    ids=lambda f: f.__name__,
)
def test_damage_is_found(damage):
    g = good()
    damage(g)
    with messages.raises(engine.InternalError):
        verify.graph(g)


def test_what_the_op_table_finds_is_the_cause():
    g = good()
    break_arity(g)
    with pytest.raises(VerificationError) as caught:
        verify.graph(g)
    assert isinstance(caught.value.__cause__, ValueError)


def test_the_printer_shows_every_node():
    text = str(good())
    assert "relu(%neg)" in text
    assert "float32[2, 3]" in text
    assert text.endswith("return %relu")
