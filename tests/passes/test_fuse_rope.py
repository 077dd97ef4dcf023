"""The rotary embedding as models write it, and what almost is one."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

SHAPE = (2, 3, 5, 8)


def start(shape=SHAPE, angles=(1, 1, 5, 8), *, constant=True) -> tuple[Graph, Value, Value]:
    g = Graph()
    g.add_input("x", TensorType("float32", shape))
    rng = np.random.default_rng(1)
    made = []
    for name in ("cos", "sin"):
        values = rng.standard_normal(angles).astype(np.float32)
        made.append(g.constant(values) if constant else g.add_input(name, TensorType("float32", angles)))
    return g, made[0], made[1]


def part(g: Graph, x: Value, start: int, stop: int, axis=3, step=1) -> Value:
    return g.emit("slice", [x], axis=axis, start=start, stop=stop, step=step)


def rotated(g: Graph, x: Value, *, at=4, negated="second", axis=3, first_of=None) -> Value:
    """[-x2, x1] with variations."""
    width = x.shape[axis]
    second, first = part(g, x, at, width, axis), part(g, x if first_of is None else first_of, 0, at, axis)
    if negated == "second":
        return g.emit("concat", [g.emit("neg", [second]), first], axis=axis)
    return g.emit("concat", [second, g.emit("neg", [first])], axis=axis)


def rope(g: Graph, cos: Value, sin: Value, *, swapped=False, **how) -> Value:
    x = g.inputs[0]
    turned = rotated(g, x, **how)
    terms = [g.emit("mul", [x, cos]), g.emit("mul", [sin, turned] if swapped else [turned, sin])]
    return g.emit("add", terms[::-1] if swapped else terms)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_the_spelling_of_llama_becomes_one_node(swapped, constant):
    g, cos, sin = start(constant=constant)
    g.outputs = [rope(g, cos, sin, swapped=swapped)]
    assert run_pass(g, "fuse_rope") == [1]
    assert ops(g) == ["rope"]


@pytest.mark.parametrize("angles", [(8,), (5, 8), (2, 1, 1, 8), SHAPE])
def test_angles_may_be_broadcast(angles):
    g, cos, sin = start(angles=angles)
    g.outputs = [rope(g, cos, sin)]
    assert run_pass(g, "fuse_rope") == [1]


@pytest.mark.parametrize(
    "how",
    [
        {"at": 3},  # no halves
        {"negated": "first"},  # turned the other way
    ],
)
def test_another_rotation_stays(how):
    g, cos, sin = start()
    g.outputs = [rope(g, cos, sin, **how)]
    assert run_pass(g, "fuse_rope") == [0]


def test_halves_of_another_axis_stay():
    g, cos, sin = start((2, 3, 8, 8), (1, 1, 8, 8))
    g.outputs = [rope(g, cos, sin, axis=2)]
    assert run_pass(g, "fuse_rope") == [0]


def test_half_of_another_value_stays():
    g, cos, sin = start()
    g.outputs = [rope(g, cos, sin, first_of=g.add_input("other", TensorType("float32", SHAPE)))]
    assert run_pass(g, "fuse_rope") == [0]


def test_every_second_column_is_no_half():
    g, cos, sin = start()
    x = g.inputs[0]
    turned = g.emit("concat", [g.emit("neg", [part(g, x, 1, 8, step=2)]), part(g, x, 0, 8, step=2)], axis=3)
    g.outputs = [g.emit("add", [g.emit("mul", [x, cos]), g.emit("mul", [turned, sin])])]
    assert run_pass(g, "fuse_rope") == [0]


def test_a_third_part_stays():
    g, cos, sin = start((2, 3, 5, 8), (1, 1, 5, 1))
    x = g.inputs[0]
    parts = [g.emit("neg", [part(g, x, 4, 8)]), part(g, x, 0, 4), part(g, x, 0, 0)]
    turned = g.emit("concat", parts, axis=3)
    g.outputs = [g.emit("add", [g.emit("mul", [x, cos]), g.emit("mul", [turned, sin])])]
    assert run_pass(g, "fuse_rope") == [0]


@pytest.mark.parametrize("angles", [(5, 1), (4, 1, 3, 5, 8)])
def test_one_angle_for_all_columns_or_angles_that_widen_x_stay(angles):
    g, cos, sin = start(angles=(4, 1, 3, 5, 8) if len(angles) == 5 else angles)
    g.outputs = [rope(g, cos, sin)]
    assert run_pass(g, "fuse_rope") == [0]


def test_a_turned_value_that_is_read_elsewhere_stays():
    g, cos, sin = start()
    y = rope(g, cos, sin)
    g.outputs = [y, next(n for n in g.nodes if n.op.name == "concat").output]
    assert run_pass(g, "fuse_rope") == [0]
