"""Kernels of the cpu that read encoded weights and compute in each arithmetic, against the definition, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine._native import lib

from engine import dtypes, encodings
from engine.config import Config
from engine.encodings import FAMILIES, Encoding
from engine.graph import Graph, share_constants, verify
from engine.ops import TensorType
from engine.targets import interpreter
from engine.targets.cpu import CPU, native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.cpu.weights import Weights
from engine.targets.plan import Storage

GROUP = 128  # a multiple of the size of every group
COMPUTES = ("element", "bfloat16")


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Problem:
    """A graph of one node."""

    def __init__(self) -> None:
        self.graph = Graph("one")
        self.given: list[np.ndarray] = []

    def value(self, array: np.ndarray):
        """An input."""
        value = self.graph.add_input(f"x{len(self.given)}", TensorType(str(array.dtype), array.shape))
        self.given.append(array)
        return value

    def weight(self, array: np.ndarray, encoding: Encoding | None):
        """A constant."""
        constant = self.graph.constant(array, "w")
        return constant if encoding is None else self.graph.encode(constant, encoding)

    def factor(self, array: np.ndarray, compute: str) -> dict[str, Any]:
        """The first factor of a product: an input, or the bytes and scales that `quantize_rows` makes of one."""
        x = self.value(array)
        if compute != "int8":
            return {"x": x}
        return dict(zip(("x", "scale"), self.graph.emit("quantize_rows", [x]).node.outputs, strict=True))

    def check(self, op: str, inputs: list[Any] | dict[str, Any], **attributes: Any) -> None:
        """The result on the cpu has the bits of the interpreter's, with one thread and with two."""
        self.graph.outputs = [self.graph.emit(op, inputs, **attributes)]
        verify.graph(self.graph)
        share_constants([self.graph])
        (expected,) = interpreter.run(self.graph, self.given)
        for threads in (1, 2):
            np.testing.assert_array_equal(run(self.graph, self.given, threads), expected, err_msg=f"{op} {attributes}")


def run(graph, given, threads=1):
    """The result by reference kernels."""
    config = Config(threads=threads, variant={node.op.name: "reference" for node in graph.nodes})
    plan = CPU.bind(graph, config)
    (output,) = graph.outputs
    result = np.full(output.shape, 85, np.float32)  # so that an element that is never written shows
    CpuExecutable(graph, plan, Weights(), threads).run([np.array(a, order="C") for a in given], [result])
    return result


def along(family: str, channel: int, summed: int) -> Encoding:
    encoding = FAMILIES[family]
    return encoding.along(summed if encoding.per == "group" else channel)


@pytest.mark.parametrize("rows", [*(pytest.param(rows, marks=pytest.mark.long) for rows in (0, 1)), 5])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_linear(family, transposed, rows):
    for compute in (*COMPUTES, "int8") if family == "int8_channel" else COMPUTES:
        for columns in (1, 6):
            shape = (columns, GROUP) if transposed else (GROUP, columns)
            problem = Problem()
            weight = problem.weight(numbers(1, *shape), along(family, *((0, 1) if transposed else (1, 0))))
            operands = {**problem.factor(numbers(2, 2, rows, GROUP), compute), "weight": weight}
            operands["bias"] = problem.value(numbers(3, columns))
            operands["residual"] = problem.value(numbers(4, 2, rows, columns))
            how: dict[str, Any] = {"transpose_weight": transposed, "compute": compute, "activation": "silu"}
            problem.check("linear", operands, **how, alpha=0.5)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_gated_linear(family, transposed):
    for compute in (*COMPUTES, "int8") if family == "int8_channel" else COMPUTES:
        problem = Problem()
        shape = (10, GROUP) if transposed else (GROUP, 10)
        weight = problem.weight(numbers(1, *shape), along(family, *((0, 1) if transposed else (1, 0))))
        operands = {**problem.factor(numbers(2, 3, GROUP), compute), "weight": weight}
        operands["bias"] = problem.value(numbers(3, 10))
        problem.check("gated_linear", operands, transpose_weight=transposed, compute=compute)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("family", [None, *FAMILIES])
def test_matmul(family, transposed):
    """Without an encoding the second factor is no constant, and has a batch."""
    for compute in COMPUTES:
        problem = Problem()
        shape = (6, GROUP) if transposed else (GROUP, 6)
        a = problem.value(numbers(2, 2, 3, GROUP))
        if family is None:
            b = problem.value(numbers(1, 2, *shape))
        else:
            b = problem.weight(numbers(1, *shape), along(family, *((0, 1) if transposed else (1, 0))))
        problem.check("matmul", [a, b], transpose_b=transposed, compute=compute, alpha=0.25)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("family", [name for name, one in FAMILIES.items() if one.per != "group"])
def test_conv(family, channels_last):
    for compute in COMPUTES:
        for groups, axes in ((1, 1), (2, 2), (3, 3)):
            problem = Problem()
            x = numbers(2, 2, 6, *[5, 4, 6][:axes])
            weight = problem.weight(numbers(1, 6, 6 // groups, *[3, 2, 2][:axes]), along(family, 0, 0))
            operands = [problem.value(np.moveaxis(x, 1, -1).copy() if channels_last else x), weight]
            each: dict[str, Any] = dict.fromkeys(("stride", "low", "high", "dilation"), (1,) * axes)
            problem.check(
                "conv", [*operands, problem.value(numbers(3, 6)), None], **each,
                groups=groups, compute=compute, channels_last=channels_last, activation="relu",
            )  # fmt: skip


def test_conv_reads_groups_of_channels():
    """No precision chooses that, a file may: the groups lie along the channels of the input."""
    problem = Problem()
    weight = problem.weight(numbers(1, 2, 64, 3), FAMILIES["q4_1"].along(1))
    each: dict[str, Any] = dict.fromkeys(("stride", "low", "high", "dilation"), (1,))
    problem.check("conv", [problem.value(numbers(2, 1, 64, 7)), weight, None, None], **each)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_tables(family):
    for axis in (0, 1) if FAMILIES[family].per == "channel" else (1,):
        problem = Problem()
        table = problem.weight(numbers(1, 9, GROUP), FAMILIES[family].along(axis))
        problem.check("embedding", [table, problem.value(np.array([[0, 8], [3, 3]]))])
        problem = Problem()
        terms = [problem.weight(numbers(n, 9, GROUP), FAMILIES[family].along(axis)) for n in (1, 2)]
        ids = [problem.value(np.array([[0, 8, 2]])), problem.value(np.array([[1, 1, 0]]))]
        norm = [problem.value(numbers(n, GROUP)) for n in (3, 4)]
        problem.check("embedding_norm", [terms[0], ids[0], terms[1], ids[1], None, None, *norm], epsilon=1e-5)


@pytest.mark.parametrize("family", ["bfloat16", "float16", "int8_channel", "int8_tensor"])
def test_expand_depthwise(family):
    problem = Problem()
    expand = problem.weight(numbers(1, 6, 4), along(family, 0, 1))
    taps = problem.weight(numbers(2, 6, 1, 3, 3), along(family, 0, 1))
    each: dict[str, Any] = dict.fromkeys(("stride", "low", "high", "dilation"), (1, 1))
    operands = [
        problem.value(numbers(3, 1, 4, 5, 4)),
        expand,
        problem.value(numbers(4, 6)),
        taps,
        problem.value(numbers(5, 6)),
    ]
    problem.check("expand_depthwise", operands, **each, expand_activation="relu6")


@pytest.mark.parametrize("special", [np.nan, np.inf, 0.0])
def test_rows_that_are_not_finite_or_zero(special):
    for compute in (*COMPUTES, "int8"):
        x = numbers(2, 3, GROUP)
        x[1] = 0 if special == 0 else x[1]
        x[1, 3] = special
        problem = Problem()
        weight = problem.weight(numbers(1, 4, GROUP), FAMILIES["int8_channel"])
        problem.check("linear", {**problem.factor(x, compute), "weight": weight}, compute=compute)


def test_halves_of_a_step_are_rounded_to_even():
    """The quotients of the row are 0.5, 1.5, 2.5 ... exactly."""
    x = (np.arange(GROUP, dtype=np.float32) - 63.5)[None]
    x[0, 0] = 127
    problem = Problem()
    weight = problem.weight(np.eye(GROUP, dtype=np.float32), FAMILIES["int8_channel"])
    problem.check("linear", {**problem.factor(x, "int8"), "weight": weight}, compute="int8")


def test_c_has_the_table_of_encodings():
    """Field by field; types and kinds by their names in the enumerations of the header."""
    assert list(native.encodings()) == ["plain", *FAMILIES]
    codes = {d.name: getattr(lib, f"EB_{d.code}") for d in dtypes.DTYPES} | {"": -1}
    for name, number in native.encodings().items():
        row, encoding = lib.eb_encoding_describe(number), FAMILIES.get(name)
        if encoding is not None:
            per, zero = (
                getattr(lib, f"EB_{k}_{v.upper()}") for k, v in (("PER", encoding.per), ("ZERO", encoding.zero))
            )
            assert (row.stored, row.scale) == (codes[encoding.stored], codes[encoding.scale])
            assert (row.bits, row.low, row.high) == (encoding.bits, encoding.low, encoding.high)
            assert (row.per, row.group, row.zero) == (per, encoding.group, zero)


def test_kernels_of_other_types_are_not_asked():
    """Only kernels whose signature permits the encoding and the arithmetic accept a node."""
    for kernel in native.kernels():
        reads = native.accepts(kernel, "int8_channel", "int8")
        quantised = kernel.types == "qd8_qc8w"
        assert reads == (quantised or kernel.types == "any_anyw"), kernel.name
        rounds = kernel.types.startswith("bd16_")
        assert native.accepts(kernel, "plain", "element") == (not rounds and not quantised), kernel.name
        assert native.accepts(kernel, "bfloat16", "bfloat16") == (rounds or kernel.types == "any_anyw"), kernel.name


def test_parts_that_do_not_fit_an_encoding_are_refused():
    """A kernel would read past the scales; the plan is refused before it runs."""
    problem = Problem()
    x = problem.value(numbers(2, 3, GROUP))
    weight = problem.weight(numbers(1, 4, GROUP), FAMILIES["int8_channel"])
    problem.graph.outputs = [problem.graph.emit("linear", [x, weight, None, None])]
    plan = CPU.bind(problem.graph, Config())
    (step,) = plan.steps
    scales = step.operands[step.encoded[1].parts]
    assert scales is not None
    assert scales.storage == Storage("constant", plan.constants.index(weight.components["scale"]))
    scales.layout = scales.layout._replace(shape=(3,))
    for kernel in native.kernels_for(None)["linear"]:
        assert native.plan(step, kernel) is None, kernel.name


def test_an_encoding_that_kernels_do_not_know_is_refused(monkeypatch):
    monkeypatch.setattr(encodings, "FAMILIES", dict(FAMILIES))
    unknown = encodings.declare(Encoding("unknown", "int8", 8, -1, 1, "channel", scale="float32"))
    problem = Problem()
    weight = problem.weight(numbers(1, 4, 8), unknown)
    problem.graph.outputs = [problem.graph.emit("linear", [problem.value(numbers(2, 3, 8)), weight, None, None])]
    (one,) = problem.graph.nodes
    reason = CPU.supports(one.op.name, one.input_types, one.attributes)
    assert reason == "no kernel reads unknown operands"
