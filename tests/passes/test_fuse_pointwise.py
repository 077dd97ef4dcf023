"""Chains of pointwise ops that must become one program, and for each guard one that almost matches and must not."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from engine.config import Config
from engine.errors import ProgramError
from engine.graph import Graph, Value, verify
from engine.ops import TensorType
from engine.passes import PASSES
from engine.program import load, save
from engine.targets import interpreter
from engine.targets.cpu import CPU, native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.cpu.passes.fuse_pointwise import MAX_INPUTS, MAX_STEPS
from engine.targets.cpu.weights import Weights
from tests import messages
from tests.graphs import ops, random_inputs, run_pass


def start(*shapes: tuple[int, ...], dtype: str = "float32") -> Graph:
    g = Graph()
    for number, shape in enumerate(shapes):
        g.add_input(f"x{number}", TensorType(dtype, shape))
    return g


def chain(g: Graph, x: Value, *names: str) -> Value:
    for name in names:
        x = g.emit(name, [x])
    return x


def test_a_chain_with_broadcasts_and_a_condition_becomes_one_node():
    g = start((4, 37), (37,), (4, 1))
    x, row, column = g.inputs
    condition = g.add_input("c", TensorType("bool", (37,)))
    y = g.emit("add", [g.emit("mul", [x, g.scalar(3.0, "float32")]), row])
    y = g.emit("where", [condition, g.emit("gelu", [y], approximate="tanh"), column])
    g.outputs = [g.emit("div", [y, column])]
    assert run_pass(g, "fuse_pointwise") == [1]
    assert ops(g) == ["pointwise"]
    assert [step[0] for step in g.nodes[0].attributes["program"]] == ["mul", "add", "gelu_tanh", "where", "div"]


def test_a_value_read_twice_inside_of_the_chain_is_computed_once():
    g = start((5, 7))
    y = g.emit("exp", [g.inputs[0]])
    g.outputs = [g.emit("mul", [y, g.emit("sigmoid", [y])])]
    assert run_pass(g, "fuse_pointwise") == [1]
    assert g.nodes[0].attributes["program"] == (("exp", 0), ("sigmoid", 1), ("mul", 1, 2))


def test_both_sides_of_a_tree_are_taken():
    g = start((5, 7), (5, 7))
    g.outputs = [g.emit("add", [chain(g, g.inputs[0], "exp"), chain(g, g.inputs[1], "tanh", "neg")])]
    assert run_pass(g, "fuse_pointwise") == [1]
    assert ops(g) == ["pointwise"]


def test_a_value_that_another_op_reads_stays():
    g = start((5, 7))
    y = chain(g, g.inputs[0], "exp", "neg")
    g.outputs = [chain(g, y, "tanh", "abs"), g.emit("sum", [y], axes=(1,), keepdims=False)]
    assert run_pass(g, "fuse_pointwise") == [2]
    assert sorted(ops(g)) == ["pointwise", "pointwise", "sum"]


def test_a_value_that_the_graph_returns_stays():
    g = start((5, 7))
    y = g.emit("exp", [g.inputs[0]])
    g.outputs = [g.emit("neg", [y]), y]
    assert run_pass(g, "fuse_pointwise") == [0]
    assert ops(g) == ["exp", "neg"]


def test_a_smaller_value_is_not_computed_again_for_each_row():
    g = start((7,), (5, 7))
    g.outputs = [g.emit("add", [g.emit("exp", [g.inputs[0]]), g.inputs[1]])]
    assert run_pass(g, "fuse_pointwise") == [0]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64"])
def test_other_element_types_are_left_alone(dtype):
    g = start((5, 7), dtype=dtype)
    g.outputs = [chain(g, g.inputs[0], "neg", "abs")]
    assert run_pass(g, "fuse_pointwise") == [0]


def test_ops_that_no_program_knows_end_the_chain():
    g = start((5, 7))
    g.outputs = [chain(g, chain(g, g.inputs[0], "exp", "neg"), "isnan", "logical_not")]
    assert run_pass(g, "fuse_pointwise") == [1]
    assert ops(g) == ["pointwise", "logical_not"]


def test_what_has_too_many_operands_is_cut():
    g = start(*[(5, 7)] * (MAX_INPUTS + 3))
    y = g.inputs[0]
    for x in g.inputs[1:]:
        y = g.emit("add", [y, x])
    g.outputs = [y]
    assert run_pass(g, "fuse_pointwise") == [2]
    assert [len(n.inputs) for n in g.nodes] == [4, MAX_INPUTS]


def test_what_has_too_many_steps_is_cut():
    g = start((5, 7))
    g.outputs = [chain(g, g.inputs[0], *["tanh", "neg"] * (MAX_STEPS // 2), "abs")]
    assert run_pass(g, "fuse_pointwise") == [1]
    assert ops(g) == ["tanh", "pointwise"]


# --- the program on the targets and in a file -----------------------------------------------------------------


def verified(g: Graph) -> Graph:
    verify.graph(g)
    return g


def swish_gate() -> Graph:
    g = start((3, 1100), (3, 1100), (1100,))
    x, gate, row = g.inputs
    y = g.emit("mul", [g.emit("mul", [x, g.emit("sigmoid", [x])]), gate])
    g.outputs = [g.emit("tanh", [g.emit("sub", [g.emit("add", [y, row]), x])])]
    return g


def run_native(g: Graph, inputs: list[np.ndarray], isa: str) -> np.ndarray:
    plan = CPU.bind(verified(g), Config(isa=isa))
    result = np.empty(g.outputs[0].shape, np.float32)
    CpuExecutable(g, plan, Weights(), 1).run(inputs, [result])
    return result


@pytest.mark.parametrize("isa", native.kernel_isas("f32"))
def test_the_fused_chain_gives_the_bits_of_its_ops_one_by_one(isa):
    one_by_one, fused = swish_gate(), swish_gate()
    assert PASSES["fuse_pointwise"].run(fused) == 1
    assert ops(fused) == ["pointwise"]
    inputs = random_inputs(fused)
    np.testing.assert_array_equal(run_native(fused, inputs, isa), run_native(one_by_one, inputs, isa))


@pytest.mark.parametrize("isa", native.kernel_isas("f32"))
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("bound", [0.0, -0.0, 0.5])
def test_zeros_at_a_bound_have_the_sign_that_the_op_gives_by_itself(bound, op, isa):
    def make() -> Graph:
        g = start((2, 100), (1,))
        x, limit = g.inputs
        g.outputs = [g.emit(op, [g.emit("neg", [x]), limit])]
        return g

    one_by_one, fused = make(), make()
    assert PASSES["fuse_pointwise"].run(fused) == 1
    x = np.resize(np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf], np.float32), (2, 100))
    found, expected = (run_native(g, [x, np.array([bound], np.float32)], isa) for g in (fused, one_by_one))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_the_interpreter_gives_the_bits_of_the_ops_one_by_one():
    one_by_one, fused = swish_gate(), swish_gate()
    PASSES["fuse_pointwise"].run(fused)
    inputs = random_inputs(fused)
    (a,), (b,) = interpreter.run(verified(fused), inputs), interpreter.run(verified(one_by_one), inputs)
    np.testing.assert_array_equal(a, b)


def test_a_chain_may_write_over_an_input_that_dies_there():
    g = start((8, 16), (8, 16))
    a, b = (g.emit("floor", [x]) for x in g.inputs)
    fused = g.emit("pointwise", [a, b], program=(("relu", 0), ("mul", 1, 2), ("sub", 3, 0)))
    g.outputs = [g.emit("ceil", [fused])]
    plan = CPU.bind(verified(g), Config())
    assert plan.in_place >= 1
    inputs = random_inputs(g)
    x, y = (np.floor(i) for i in inputs)
    isa = native.kernel_isas("f32")[-1]
    np.testing.assert_array_equal(run_native(g, inputs, isa), np.ceil(np.maximum(x, 0) * y - x))


@pytest.mark.parametrize("shape", ["steps", "inputs"])
def test_a_program_that_no_kernel_has_room_for_is_refused_when_it_is_bound(shape):
    count = MAX_STEPS + 1 if shape == "steps" else MAX_INPUTS
    g = start(*[(5, 7)] * (1 if shape == "steps" else MAX_INPUTS + 1))
    steps = [("neg", n) for n in range(count)]
    if shape == "inputs":
        steps = [("add", 0 if n == 0 else len(g.inputs) + n - 1, n + 1) for n in range(count)]
    g.outputs = [g.emit("pointwise", g.inputs, program=tuple(steps))]
    (result,) = interpreter.run(verified(g), random_inputs(g))
    assert result.shape == (5, 7)
    with messages.raises(ProgramError):
        CPU.bind(g, Config())


HOSTILE = {
    "an operand far out of range": [["relu", 1 << 40]],
    "an operand that is made later": [["add", 0, 2], ["relu", 1]],
    "its own result": [["relu", 1]],
    "a negative operand": [["relu", -1]],
    "an unknown step": [["system", 0]],
    "a step that is no list": ["relu"],
    "no steps": [],
    "too many steps": [["relu", i] for i in range(129)],
    "too few operands": [["add", 0]],
    "a result that nobody reads": [["relu", 0], ["exp", 0]],
    "nested lists": [[["relu"], 0]],
    "a number": 7,
}


@pytest.mark.parametrize("steps", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_programs_in_a_file_are_refused(tmp_path, steps):
    import hashlib

    g = start((3, 4))
    g.outputs = [g.emit("pointwise", g.inputs, program=(("exp", 0), ("relu", 1)))]
    path = tmp_path / "p"
    save(path, verified(g))
    assert load(path).nodes[0].attributes["program"] == (("exp", 0), ("relu", 1))
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    index = json.loads(raw[8 : 8 + length])
    header = json.loads(index["__metadata__"]["program"])
    header["instructions"][0]["attributes"]["program"] = steps
    text = json.dumps(header)
    index["__metadata__"] = {"program": text, "program_sha256": hashlib.sha256(text.encode()).hexdigest()}
    encoded = json.dumps(index).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + raw[8 + length :])
    with pytest.raises(ProgramError):
        load(path)
