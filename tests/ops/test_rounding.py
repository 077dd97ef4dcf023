"""The rounding that ops declare, against their definitions in narrow types and against kernels that sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import engine
from engine import dtypes, passes
from engine.graph import Graph
from engine.ops import TABLE, TensorType
from engine.ops.rounding import ACCUMULATION, EXACT, ONCE, RESULT
from engine.program import save
from tests.ops.case import Case, given, types_of
from tests.ops.cases import CASES
from tools.generate import page

NARROW = ("bfloat16", "float16")
EXTRA = [
    Case("floor_div", "even", (given([2005.0]), given([0.7]))),  # 2863 in float16, 2860 in bfloat16: neither has it
    Case("full", "third", (), {"shape": (2,), "value": 1 / 3, "dtype": "float32"}),
    Case("arange", "thirds", (), {"length": 5, "step": 1 / 3, "dtype": "float32"}),
    Case("pad", "third", (given([1.0]),), {"low": (1,), "high": (1,), "value": 1 / 3}),
]
"""Of ops whose other cases round nothing."""


def is_float(array: Any) -> bool:
    return array is not None and dtypes.from_numpy(array.dtype).kind == "float"


def narrow_and_wide(case: Any, dtype: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The definition of a case for operands of `dtype`, and for the same numbers in float64; None if it has no floats.

    An op of float32 alone is given float32. Where an attribute names the type of the result, operands stay as they are.
    """
    op, attributes = TABLE[case.op], case.complete()
    chosen = dtypes.dtype(attributes.get("dtype", "bool")).kind == "float"
    if not chosen and not any(map(is_float, case.inputs())):
        return None

    inputs, own, wide, wide_own = case.inputs(), attributes, case.inputs(), attributes
    with np.errstate(all="ignore"):
        if chosen:
            own, wide_own = attributes | {"dtype": dtype}, attributes | {"dtype": "float64"}
        else:
            inputs = [a.astype(dtypes.dtype(dtype).numpy) if is_float(a) else a for a in inputs]
            wide = [a.astype(np.float64) if is_float(a) else a for a in inputs]
        try:
            op.infer(types_of(inputs), own)
        except ValueError:
            if dtype == "float32":
                raise
            return narrow_and_wide(case, "float32")
        return op.reference(*inputs, **own), op.reference(*wide, **wide_own)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", [op for op in TABLE.values() if op.rounding in (EXACT, ONCE)], ids=lambda op: op.name)
def test_a_definition_rounds_nothing_or_its_result_alone_as_it_is_declared(op, dtype):
    pairs = [pair for c in (*CASES, *EXTRA) if c.op == op.name and (pair := narrow_and_wide(c, dtype)) is not None]
    # The result in float64, rounded once, is the result in the narrow type: nothing else is rounded.
    once = [same(narrow, wide.astype(narrow.dtype)) for narrow, wide in pairs]
    exact = [same(narrow, wide) for narrow, wide in pairs]
    if op.rounding is EXACT:
        assert all(exact)
    else:
        assert all(once)
        assert not all(exact), "no case rounds anything: declare it EXACT"


# --- fused ops: chains of steps that could be rounded ----------------------------------------------------------------


class Rounder:
    """Called with each value of a chain and its name; rounds those whose names are chosen."""

    def __init__(self, dtype: str, names: set[str]) -> None:
        self.numpy = dtypes.dtype(dtype).numpy
        self.names = names
        self.seen: dict[str, None] = {}

    def __call__(self, name: str, value: np.ndarray) -> np.ndarray:
        self.seen[name] = None
        return value.astype(self.numpy).astype(np.float64) if name in self.names else value


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(at, scores):
    powers = at("powers", np.exp(at("shifted", scores - scores.max(-1, keepdims=True))))
    return powers / powers.sum(-1, keepdims=True)


def of_product(product):
    def chain(at, x, weight, bias, residual):
        y = at("+ bias", at("product", product(x, weight)) + bias)
        y = at("+ residual", y + residual)
        return silu(y)

    return chain


def scaled_product(at, a, b):
    return 0.37 * at("product", a @ b)


def gated(at, x, weight, bias):
    y = at("+ bias", at("product", x @ weight.T) + bias)
    gate, up = np.split(y, 2, -1)
    return at("silu", silu(gate)) * up


def attention(at, q, k, v, mask):
    scores = at("scaled", 0.31 * at("scores", q @ np.swapaxes(k, -1, -2)))
    return at("softmax", softmax(at, at("+ mask", scores + mask))) @ v


def gelu(at, x):
    y = at("x + cube", x + at("0.044715 * cube", 0.044715 * at("cube", x * x * x)))
    return 0.5 * x * at("1 + tanh", 1 + at("tanh", np.tanh(at("scaled", np.sqrt(2 / np.pi) * y))))


def rope(at, x, cos, sin):
    low, high = np.split(x, 2, -1)
    return at("x * cos", x * cos) + at("turned * sin", np.concatenate([-high, low], -1) * sin)


def normed(at, v, weight, bias=None):
    """Layer norm, or rms norm without a bias."""
    centred = v if bias is None else at("centred", v - v.mean(-1, keepdims=True))
    y = at("divided", centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 0.1))
    y = y * weight
    return y if bias is None else at("* weight", y) + bias


def layer_norm(at, x, weight, bias, addend):
    return normed(at, at("x + addend", x + addend), weight, bias)


def rms_norm(at, x, weight, addend):
    return normed(at, at("x + addend", x + addend), weight)


def pointwise(at, a, b, c):
    return at("each step", np.exp(at("each step", at("each step", a * b) + c)))


def embedding_norm(at, first, ids, second, _no_ids, third, third_ids, weight, bias):
    total = at("each sum of terms", first[ids] + second)
    return normed(at, at("each sum of terms", total + third[third_ids]), weight, bias)


def expand_depthwise(at, x, expand, expand_bias, weight, bias):
    y = silu(at("+ bias", at("product", x @ expand.T) + expand_bias))
    return at("product of channels", at("the linear's result", y) * weight[:, 0, 0, 0]) + bias


def conv_product(x, weight):
    return np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0])


def transposed_product(x, weight):
    return np.einsum("nchw,co->nohw", x, weight[:, :, 0, 0])


ONE_BY_ONE = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}
PROGRAM = (("mul", 0, 1), ("add", 3, 2), ("exp", 4))
IDS = np.arange(24) % 7
CHAINS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "matmul": (scaled_product, [(24, 32), (32, 40)], {"alpha": 0.37}),
    "linear": (
        of_product(lambda x, weight: x @ weight.T),
        [(24, 32), (40, 32), (40,), (24, 40)],
        {"activation": "silu"},
    ),
    "gated_linear": (gated, [(24, 32), (80, 32), (80,)], {}),
    "conv": (
        lambda at, x, w, b, r: of_product(conv_product)(at, x, w, b[:, None, None], r),
        [(2, 8, 5, 6), (16, 8, 1, 1), (16,), (2, 16, 5, 6)],
        {**ONE_BY_ONE, "activation": "silu"},
    ),
    "conv_transpose": (
        lambda at, x, w, b, r: of_product(transposed_product)(at, x, w, b[:, None, None], r),
        [(2, 8, 5, 6), (8, 16, 1, 1), (16,), (2, 16, 5, 6)],
        {**ONE_BY_ONE, "activation": "silu"},
    ),
    "attention": (attention, [(2, 16, 8), (2, 12, 8), (2, 12, 8), (16, 12)], {"scale": 0.31}),
    "rope": (rope, [(24, 32)] * 3, {}),
    "gelu": (gelu, [(24, 32)], {"approximate": "tanh"}),
    "softmax": (softmax, [(24, 32)], {"axis": 1}),
    "layer_norm": (layer_norm, [(24, 32), (32,), (32,), (24, 32)], {"axes": 1, "epsilon": 0.1}),
    "rms_norm": (rms_norm, [(24, 32), (32,), (24, 32)], {"axes": 1, "epsilon": 0.1}),
    "pointwise": (pointwise, [(24, 32)] * 3, {"program": PROGRAM}),
    "embedding_norm": (
        embedding_norm,
        [(7, 32), IDS, (24, 32), None, (9, 32), IDS, (32,), (32,)],
        {"epsilon": 0.1},
    ),
    "expand_depthwise": (
        expand_depthwise,
        [(2, 5, 6, 8), (16, 8), (16,), (16, 1, 1, 1), (16,)],
        {**ONE_BY_ONE, "expand_activation": "silu"},
    ),
}
"""Op -> the same chain of steps as ops of torch would compute, shapes of operands (or an operand), attributes."""


def operands(op: str, dtype: str) -> list[np.ndarray | None]:
    rng = np.random.default_rng(3)
    given = CHAINS[op][1]
    return [rng.normal(size=g).astype(dtypes.dtype(dtype).numpy) if isinstance(g, tuple) else g for g in given]


def chained(op: str, dtype: str, names: set[str]) -> tuple[np.ndarray, list[str]]:
    """The chain, rounded at `names` and at its end; and the names of all its steps before the end."""
    at = Rounder(dtype, names)
    wide = [a.astype(np.float64) if is_float(a) else a for a in operands(op, dtype)]
    result = CHAINS[op][0](at, *wide)
    return result.astype(at.numpy), list(at.seen)


def types(op: str) -> list[str]:
    """The element types in which the op exists, of those that round visibly."""
    try:
        TABLE[op].infer(types_of(operands(op, "bfloat16")), TABLE[op].complete(CHAINS[op][2]))
    except ValueError:
        return ["float32"]
    return [*NARROW, "float32"]


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in CHAINS for dtype in types(op)])
def test_a_fused_op_rounds_at_its_declared_points_and_nowhere_else(op, dtype):
    declared = set(TABLE[op].rounding.points) - {RESULT}
    found = TABLE[op].reference(*operands(op, dtype), **TABLE[op].complete(CHAINS[op][2]))
    expected, steps = chained(op, dtype, declared)
    assert declared <= set(steps)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    for name in steps:  # one point more or one less gives other bits
        other, _ = chained(op, dtype, declared ^ {name})
        assert not np.array_equal(other, expected), name


def test_every_op_that_rounds_between_has_a_chain_and_so_has_every_op_that_passes_fuse():
    # Coordinates of `taps` are rounded as torch rounds them: its cases compare them.
    between = {op.name for op in TABLE.values() if set(op.rounding.points) - {RESULT}} - {"taps"}
    assert between == {"layer_norm", "rms_norm", "pointwise", "embedding_norm", "expand_depthwise"}
    fused = {name.removeprefix("fuse_") for name in passes.PASSES if name.startswith("fuse_")}
    # The first three add to other ops: linear, the convolutions and the norms. The last one makes `pointwise`, too.
    assert between | fused - {"bias", "epilogue", "add_norm", "pointwise_triton"} | {
        "linear",
        "conv",
        "conv_transpose",
        "matmul",
    } == set(CHAINS)


# --- what lies between -----------------------------------------------------------------------------------------------


def test_kernels_compute_in_no_narrower_type_than_their_operands():
    sizes = {name: dtypes.dtype(name).size for name in ACCUMULATION}
    assert set(ACCUMULATION) == {d.name for d in dtypes.DTYPES if d.kind == "float"}
    for name, between in ACCUMULATION.items():
        assert sizes[between] >= max(sizes[name], 4)
    assert set(TABLE["quantize"].rounding.accumulation.values()) == {"float32"}


SUMS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "sum": ([(2, 4096)], {"axes": (1,)}),
    "cumsum": ([(2, 4096)], {"axis": 1}),
    "matmul": ([(2, 4096), (4096, 3)], {}),
    "linear": ([(2, 4096), (3, 4096), None, None], {}),
    "conv": ([(1, 512, 3, 3), (4, 512, 3, 3), None, None], ONE_BY_ONE),
    "gated_linear": ([(2, 4096), (6, 4096), None], {"activation": "none"}),
    "attention": ([(1, 2, 8), (1, 4096, 8), (1, 4096, 8), None], {"scale": 0.0}),
}


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", SUMS)
def test_thousands_of_ones_are_summed_exactly(op, dtype, target, tmp_path):
    """bfloat16 counts to 256 by ones and float16 to 2048."""
    shapes, attributes = SUMS[op]
    graph = Graph(op)
    given = [s and graph.add_input(f"x{n}", TensorType(dtype, s)) for n, s in enumerate(shapes)]
    graph.outputs = [graph.emit(op, given, **attributes)]
    save(tmp_path / "p", graph)
    ones = [np.ones(s, dtypes.dtype(dtype).numpy) for s in shapes if s]
    (result,) = engine.load(tmp_path / "p", config=engine.Config(target=target))(*ones)
    found = np.asarray(result).astype(np.float64)
    expected = {"conv": 512 * 9, "attention": 1, "gated_linear": 4096**2 if dtype == "bfloat16" else np.inf}
    last = found[..., -1] if op == "cumsum" else found
    exact = np.float64(np.array(expected.get(op, 4096)).astype(dtypes.dtype(dtype).numpy))
    np.testing.assert_array_equal(last, np.full_like(last, exact))


def test_the_page_has_a_column_of_rounding():
    rows = {line.split("|")[1].strip(): line.split("|")[5].strip() for line in page().splitlines() if "| `" in line}
    assert rows["`matmul`"] == "once"
    assert rows["`reshape`"] == ""
    assert rows["`layer_norm`"] == "x + addend, result"
    assert f"| computed in | {' | '.join(ACCUMULATION.values())} |" in page()
