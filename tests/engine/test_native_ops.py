"""Every op on the native target against its NumPy definition: each instruction set, and each way operands can lie."""

from __future__ import annotations

import numpy as np
import pytest

from engine import dtypes
from engine.config import Config
from engine.errors import ConfigError, ExecutionError
from engine.graph import Graph, Value, share_constants, verify
from engine.ops import TABLE, TensorType
from engine.switches import kernel_variants
from engine.targets.cpu import CPU, native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.cpu.weights import Weights
from engine.targets.plan import BoundPlan
from tests import messages
from tests.ops.case import Case, results_of, types_of
from tests.ops.cases import CASES

# The definition rounds once; a kernel in float32 rounds at every step of sums over at most a few hundred terms, and
# its exp, tanh and erf are a few units in the last place off.
RELATIVE = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}
ABSOLUTE = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}


def magnitude(op: str, expected: np.ndarray) -> float:
    """What an absolute error is measured by. A sum that happens to be small has the rounding of its terms all the same,
    and Winograd's the rounding of its neighbours' too."""
    if op != "conv" or not expected.size:
        return 1.0
    return max(1.0, float(np.sqrt(np.mean(np.square(expected, dtype=np.float64)))))


def dense(g: Graph, number: int, array: np.ndarray) -> tuple[Value, np.ndarray]:
    """The operand as an input."""
    return g.add_input(f"x{number}", types_of([array])[0]), array


def reversed_axes(g: Graph, number: int, array: np.ndarray) -> tuple[Value, np.ndarray]:
    """The operand as a view with its axes in the opposite order in memory."""
    order = tuple(range(array.ndim))[::-1]
    stored = np.ascontiguousarray(array.transpose(order)).reshape(array.shape[::-1])
    value, _ = dense(g, number, stored)
    return g.emit("permute", [value], axes_order=order), stored


def padded(g: Graph, number: int, array: np.ndarray) -> tuple[Value, np.ndarray]:
    """The operand as the middle of rows that are longer."""
    if not array.ndim:
        return dense(g, number, array)
    wide = (
        np.concatenate([np.zeros_like(array[..., :1]), array, array[..., :1], array[..., :1]], -1)
        if array.shape[-1]
        else np.zeros((*array.shape[:-1], 3), array.dtype)
    )
    value, _ = dense(g, number, wide)
    stop = 1 + array.shape[-1]
    return g.emit("slice", [value], axis=array.ndim - 1, start=1, stop=stop, step=1), wide


def constant(g: Graph, number: int, array: np.ndarray) -> tuple[Value, np.ndarray]:
    """The operand as a constant, except for the first."""
    return dense(g, number, array) if number == 0 else (g.constant(array, f"c{number}"), array)


def build(case: Case, lay) -> tuple[Graph, list[np.ndarray]]:
    g = Graph(case.id)
    operands: list[Value | None] = []
    given: list[np.ndarray] = []
    for number, array in enumerate(case.inputs()):
        if array is None:
            operands.append(None)
            continue
        value, stored = lay(g, number, array)
        operands.append(value)
        if not value.is_constant:
            given.append(stored)
    node = g.emit(case.op, operands, **case.attributes).node
    assert node is not None
    g.outputs = list(node.outputs)
    verify.graph(g)
    return g, given


def run(g: Graph, given: list[np.ndarray], config: Config) -> tuple[list[np.ndarray], BoundPlan]:
    share_constants([g])
    plan = CPU.bind(g, config)
    target = CpuExecutable(g, plan, Weights(), CPU.lanes(config))
    # Poisoned, so that an element that is never written shows.
    results = [np.full(v.shape, 85, np.uint8).astype(dtypes.dtype(v.dtype).numpy) for v in g.outputs]
    arrays = [np.array(a, order="C") for a in given]
    target.run(arrays, results)
    for now, before in zip(arrays, given, strict=True):
        assert now.tobytes() == np.ascontiguousarray(before).tobytes(), "an input was written to"
    return results, plan


LAYOUTS = [dense, reversed_axes, padded, constant]
ISAS = native.kernel_isas()
LEAST, MOST = ISAS[0], ISAS[-1]
EVERY = [(isa, threads) for isa in ISAS for threads in (1, 2)]
# Kernels have one source for all instruction sets, and strides are read by that.
SOME = {lay: [(LEAST, 2), (MOST, 2)] if lay is dense else [(MOST, 1)] for lay in LAYOUTS}


@pytest.mark.parametrize("share", ["some", pytest.param("others", marks=pytest.mark.long)])
@pytest.mark.parametrize("lay", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("op", sorted(name for name, op in TABLE.items() if op.has_kernels))
def test_native_kernels_compute_the_definition(op, lay, share):
    """On each instruction set, by one thread and by two."""
    cases = [c for c in CASES if c.op == op]
    assert cases, "every op has cases"
    for case in cases:
        with np.errstate(all="ignore"):
            expected = results_of(TABLE[op].reference(*case.inputs(), **case.complete()))
        for isa, threads in EVERY:
            if ((isa, threads) in SOME[lay]) != (share == "some"):
                continue
            g, given = build(case, lay)
            results, _ = run(g, given, Config(isa=isa, threads=threads))
            label = f"{case.id} on {isa}, {threads} thread(s)"
            for result, wanted in zip(results, expected, strict=True):
                check_result(op, result, wanted, label)


def check_result(op: str, result: np.ndarray, expected: np.ndarray, label: str) -> None:
    name = result.dtype.name
    if name not in RELATIVE:
        np.testing.assert_array_equal(result, expected, err_msg=label)
        return
    np.testing.assert_allclose(
        result.astype(np.float64),
        np.asarray(expected, np.float64),
        rtol=RELATIVE[name],
        atol=ABSOLUTE[name] * magnitude(op, expected),
        err_msg=label,
    )


@pytest.mark.parametrize("isa", native.kernel_isas())
def test_gelu_of_far_negative_numbers_is_nearly_0(isa):
    """The promise in ulp of 1 would let 6e-8 pass."""
    g = Graph()
    x = np.array([-8, -9, -11.3, -13, -20, -1e10, -3e38] * 7, np.float32)
    value, stored = dense(g, 0, x)
    g.outputs = [g.emit("gelu", [value])]
    ((result,), _) = run(g, [stored], Config(isa=isa))
    assert np.all(np.abs(result) <= np.where(x < -9, 1e-32, 1e-14))


@pytest.mark.parametrize("threads", [3, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("isa", [MOST, *(pytest.param(isa, marks=pytest.mark.long) for isa in ISAS if isa != MOST)])
def test_the_same_bits_at_any_number_of_threads(isa, threads):
    for case in (c for c in CASES if TABLE[c.op].has_kernels):
        results = [run(*build(case, constant), Config(isa=isa, threads=t))[0][0].tobytes() for t in (1, threads)]
        assert results[0] == results[1], case.id


@pytest.mark.parametrize("op", ["embedding", "embedding_norm", "gather", "index", "index_select"])
def test_indices_out_of_range_are_an_error(op):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    attributes = {
        "embedding": {},
        "embedding_norm": {"epsilon": 0.1},
        "gather": {"axis": 0},
        "index": {"axes": (0,)},
        "index_select": {"axis": 0},
    }[op]
    for bad in (4, -5, 1 << 40):
        index = np.array([[bad]] if op == "gather" else [0, bad])
        g = Graph()
        inputs: list[Value | None] = [dense(g, n, a)[0] for n, a in enumerate((table, index))]
        absent = [None for name in TABLE[op].inputs if name.endswith("?")]
        g.outputs = [g.emit(op, [*inputs, *absent], **attributes)]
        with messages.raises(ExecutionError):
            run(g, [table, index], Config())


@pytest.mark.parametrize("bad", [-2, 4, 1 << 40])
def test_a_tap_out_of_range_is_an_error(bad):
    arrays = [np.zeros(4, np.float32), np.array([[0, bad]]), np.ones((1, 2), np.float32)]
    g = Graph()
    g.outputs = [g.emit("resample", [dense(g, n, a)[0] for n, a in enumerate(arrays)], axis=0)]
    with messages.raises(ExecutionError):
        run(g, arrays, Config())


@pytest.mark.parametrize("bad", [-5, 4, 1 << 40])
@pytest.mark.parametrize(("op", "attributes"), [("scatter", {"axis": 0}), ("index_put", {"axes": (0,)})])
def test_a_write_out_of_range_is_an_error(op, attributes, bad):
    x, index, values = np.zeros(4, np.float32), np.array([0, bad]), np.ones(2, np.float32)
    arrays = [x, index, values] if op == "scatter" else [x, values, index]
    g = Graph()
    g.outputs = [g.emit(op, [dense(g, n, a)[0] for n, a in enumerate(arrays)], **attributes)]
    with messages.raises(ExecutionError):
        run(g, arrays, Config())


@pytest.mark.parametrize("op", ["floor_div", "remainder", "fmod"])
def test_division_of_integers_by_zero_is_an_error(op):
    a, b = np.array([1, 2]), np.array([1, 0])
    g = Graph()
    inputs = [dense(g, n, x)[0] for n, x in enumerate((a, b))]
    g.outputs = [g.emit(op, inputs)]
    with messages.raises(ExecutionError):
        run(g, [a, b], Config())


@pytest.mark.parametrize("alpha", [0.0, 5e-324])
@pytest.mark.parametrize("variant", [*kernel_variants()["linear"]])
def test_no_nan_is_lost_where_alpha_is_0(variant, alpha):
    """BLAS does not read its operands then. `bind` refuses a variant that cannot run here."""
    x, weight = np.full((4, 16), np.nan, np.float32), np.ones((8, 16), np.float32)
    g = Graph("alpha")
    g.outputs = [g.emit("linear", [g.add_input("x", TensorType("float32", x.shape)), g.constant(weight), None, None],
                        transpose_weight=True, alpha=alpha)]  # fmt: skip
    try:
        (result,), _ = run(g, [x], Config(variant={"linear": variant}))
    except ConfigError as error:
        assert "linear" in str(error)  # noqa: PT017  # either outcome is right
        return
    assert np.isnan(result).all()
