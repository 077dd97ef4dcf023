"""Nodes give their inputs by declared name, cannot be changed, and are emitted again with their types inferred."""

from __future__ import annotations

import pytest

from engine.graph import Graph, Node, Source, Value, verify
from engine.ops import TABLE, Op, TensorType
from engine.passes.pattern import Rule, Var, apply, call
from tests import messages
from tests.graphs import ops


def start(*shapes: tuple[int, ...]) -> Graph:
    g = Graph()
    for shape in shapes:
        g.add_input("x", TensorType("float32", shape))
    return g


def product(g: Graph) -> Node:
    """The node of a [2, 3] by [3, 5] matmul of the first two inputs."""
    value = g.emit("matmul", g.inputs[:2], source=Source("model.py:7"))
    g.outputs = [value]
    assert value.node is not None
    return value.node


def _is_variadic(op: Op) -> bool:
    return any(name.endswith("*") for name in op.inputs)


# --- inputs by name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", TABLE.values(), ids=lambda op: op.name)
def test_each_name_of_the_table_gives_the_input_in_its_place(op):
    values = [Value(name, TensorType("float32", ())) for name in op.inputs]
    node = Node(op, values, {}, "")
    for name, value in zip(op.inputs, values, strict=True):
        plain = name.rstrip("?*")
        if name.endswith("*"):
            assert node.inputs[op.position(plain)] is value
        else:
            assert node[plain] is node.operand(plain) is value


def test_an_absent_optional_input_is_none_and_no_operand():
    g = start((2, 3), (5, 3))
    node = g.emit("linear", {"x": g.inputs[0], "weight": g.inputs[1]}).node
    assert node["bias"] is None
    with messages.raises(ValueError):
        node.operand("bias")


@pytest.mark.parametrize("name", ["wieght", "bias?", ""])
def test_an_unknown_name_is_an_error_that_lists_the_inputs(name):
    g = start((2, 3), (5, 3))
    node = g.emit("linear", {"x": g.inputs[0], "weight": g.inputs[1]}).node
    for look_up in (node.__getitem__, node.operand, node.op.position):
        with messages.raises(KeyError):
            look_up(name)


def test_a_variadic_name_has_a_position_and_no_single_value():
    g = start((2, 3), (2, 3))
    node = g.emit("concat", g.inputs, axis=0).node
    assert node.op.position("xs") == 0
    assert TABLE["index_put"].position("indices") == 2
    with messages.raises(KeyError):
        node["xs"]


# --- nodes from names ----------------------------------------------------------------------------------------------


def test_inputs_given_by_name_stand_in_declared_order():
    g = start((2, 3), (5, 3), (2, 5))
    x, weight, residual = g.inputs
    node = g.emit("linear", {"residual": residual, "weight": weight, "x": x}).node
    assert node.inputs == (x, weight, None, residual, None)


def test_a_missing_required_name_is_refused():
    g = start((2, 3))
    with messages.raises(ValueError):
        g.emit("linear", {"x": g.inputs[0]})


def test_an_unknown_name_is_refused():
    g = start((2, 3))
    with messages.raises(KeyError):
        g.emit("relu", {"a": g.inputs[0]})


def test_variadic_inputs_are_given_by_position():
    g = start((2, 3))
    with messages.raises(ValueError):
        g.emit("concat", {"xs": g.inputs[0]}, axis=0)


# --- nodes emitted again -------------------------------------------------------------------------------------------


def test_a_node_emitted_again_differs_in_what_is_given_alone():
    g = start((2, 3), (5, 3), (5,))
    x, weight, bias = g.inputs
    source = Source("model.py:7", "body")
    old = g.emit("linear", {"x": x, "weight": weight, "bias": bias}, source=source, activation="relu").node
    g.emit("neg", [x])
    new = g.emit_again(old, {"bias": None}, alpha=2.0).node
    assert new.inputs == (x, weight, None, None, None)
    assert new.attributes == {"transpose_weight": True, "activation": "relu", "alpha": 2.0, "compute": "element"}
    assert new.source == source
    assert (old.inputs, old.attributes["alpha"]) == ((x, weight, bias, None, None), 1.0)
    assert [new, old] == g.nodes[:2]


def test_a_node_can_be_emitted_again_behind_itself():
    g = start((2, 3))
    old = g.emit("neg", g.inputs).node
    last = g.emit("abs", [old.output]).node
    g.emit_again(old, {"x": old.output}, before=last)
    assert ops(g) == ["neg", "neg", "abs"]
    verify.graph(g)


def test_the_inputs_in_front_of_variadic_ones_can_change():
    g = start((4, 3), (2, 3))
    indices = g.add_input("i", TensorType("int64", (7,)))
    old = g.emit("index", [g.inputs[0], indices], axes=(0,)).node
    new = g.emit_again(old, {"x": g.inputs[1]}).node
    assert new.inputs == (g.inputs[1], indices)
    with messages.raises(KeyError):
        g.emit_again(old, {"indices": indices})


def test_types_are_inferred_again():
    g = start((2, 3), (3, 5), (3, 8))
    new = g.emit_again(product(g), {"b": g.inputs[2]})
    assert new.type == TensorType("float32", (2, 8))


@pytest.mark.parametrize("changed", ["operand", "attribute"])
def test_a_change_that_the_op_refuses_is_an_error_and_leaves_the_graph_as_it_was(changed):
    g = start((2, 3), (3, 5), (4, 5))
    node = product(g)
    with messages.raises(ValueError):
        g.emit_again(node, {"b": g.inputs[2]}) if changed == "operand" else g.emit_again(node, transpose_b=True)
    assert g.nodes == [node]
    verify.graph(g)


def test_a_pass_that_makes_an_ill_typed_node_is_an_error():
    g = start((2, 3), (3, 5))
    product(g)
    transpose = Rule(
        call("matmul", Var("a"), Var("b")), lambda g, found: g.emit_again(found.nodes[0], transpose_b=True)
    )
    with messages.raises(ValueError):
        apply(g, (transpose,))


# --- nodes are not changed -----------------------------------------------------------------------------------------


def assign_inputs(node: Node) -> None:
    node.inputs = ()


def assign_an_input(node: Node) -> None:
    node.inputs[0] = None


def assign_attributes(node: Node) -> None:
    node.attributes = {}


def assign_an_attribute(node: Node) -> None:
    node.attributes["alpha"] = 2.0


def update_attributes(node: Node) -> None:
    node.attributes |= {"alpha": 2.0}


@pytest.mark.parametrize(
    "change",
    [assign_inputs, assign_an_input, assign_attributes, assign_an_attribute, update_attributes],
    ids=lambda f: f.__name__,
)
def test_a_node_cannot_be_changed(change):
    g = start((2, 3), (3, 5))
    node = product(g)
    with pytest.raises((AttributeError, TypeError)):
        change(node)
    assert node.inputs == tuple(g.inputs)
    assert node.attributes["alpha"] == 1.0


def test_a_value_is_replaced_for_every_reader_and_for_the_caller():
    g = start((2, 3), (2, 3), (2, 3))
    a, b, c = g.inputs
    both = g.emit("add", [a, a])
    other = g.emit("mul", [both, b])
    g.outputs = [other, a, b]
    g.replace_all({a: c, b: both})
    assert both.node.inputs == (c, c)
    assert other.node.inputs == (both, both)
    assert g.outputs == [other, c, both]
