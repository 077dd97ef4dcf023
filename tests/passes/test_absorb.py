"""Transposes and scalars taken into matmul, linear and attention; masks read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import engine
from engine.graph import Graph
from engine.ops import TensorType
from tests.graphs import ops, random_inputs, run_pass
from tests.modules import Function

SWAP = (0, 1, 3, 2)


def qkv(rows: int = 5, keys: int = 5, heads: int = 2, groups: int = 2) -> Graph:
    g = Graph()
    for name, shape in (("q", (1, heads, rows, 4)), ("k", (1, groups, keys, 4)), ("v", (1, groups, keys, 4))):
        g.add_input(name, TensorType("float32", shape))
    return g


def test_a_transpose_of_the_last_two_axes_is_absorbed():
    g = qkv()
    q, k, _ = g.inputs
    g.outputs = [g.emit("matmul", [q, g.emit("permute", [k], axes_order=SWAP)])]
    assert run_pass(g, "absorb_transpose", "dead_code") == [1, 1]
    assert ops(g) == ["matmul"]
    assert g.nodes[0].attributes["transpose_b"]


def test_a_transpose_of_a_transpose_flag_goes_back():
    g = qkv()
    q, k, _ = g.inputs
    turned = g.emit("permute", [k], axes_order=SWAP)
    g.outputs = [g.emit("matmul", [g.emit("permute", [q], axes_order=SWAP), turned], transpose_a=True)]
    run_pass(g, "absorb_transpose")
    node = next(n for n in g.nodes if n.op.name == "matmul")
    assert (node.attributes["transpose_a"], node.attributes["transpose_b"]) == (False, True)


def test_another_permutation_is_not_absorbed():
    g = Graph()
    x, y = (g.add_input(n, TensorType("float32", (3, 3, 3, 3))) for n in "xy")
    g.outputs = [g.emit("matmul", [x, g.emit("permute", [y], axes_order=(1, 0, 2, 3))])]
    assert run_pass(g, "absorb_transpose") == [0]


def test_linear_takes_a_transposed_weight():
    g = Graph()
    x = g.add_input("x", TensorType("float32", (2, 3)))
    weight = g.add_input("w", TensorType("float32", (3, 4)))
    g.outputs = [g.emit("linear", [x, g.emit("permute", [weight], axes_order=(1, 0)), None, None])]
    assert run_pass(g, "absorb_transpose") == [1]
    assert not g.nodes[-1].attributes["transpose_weight"]


def attention(g: Graph, mask=None, **attributes):
    return g.emit(
        "attention", [*g.inputs[:3], mask], scale=0.5, **({"causal": False, "masked_rows": "nan"} | attributes)
    )


def test_attention_writes_in_the_order_its_only_reader_wants():
    g = qkv()
    g.outputs = [g.emit("permute", [attention(g)], axes_order=(0, 2, 1, 3))]
    assert run_pass(g, "absorb_transpose") == [1]
    assert ops(g) == ["attention"]


def test_attention_that_is_also_an_output_keeps_its_order():
    g = qkv()
    out = attention(g)
    g.outputs = [out, g.emit("permute", [out], axes_order=(0, 2, 1, 3))]
    assert run_pass(g, "absorb_transpose") == [0]


@pytest.mark.parametrize("op", ["mul", "div"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_scalars_around_matmul_become_alpha(op, where):
    g = qkv()
    q, k, _ = g.inputs
    two = g.scalar(2.0, "float32")
    if where == "before":
        g.outputs = [g.emit("matmul", [g.emit(op, [q, two]), k], transpose_b=True)]
    else:
        g.outputs = [g.emit(op, [g.emit("matmul", [q, k], transpose_b=True, alpha=3.0), two])]
    assert run_pass(g, "absorb_scalar") == [1]
    alpha = g.nodes[0].attributes["alpha"]
    assert alpha == (1.0 if where == "before" else 3.0) * (2.0 if op == "mul" else 0.5)


def test_a_scalar_on_the_query_becomes_the_scale():
    g = qkv()
    q, k, v = g.inputs
    scaled = g.emit("mul", [g.scalar(0.25, "float32"), q])
    g.outputs = [g.emit("attention", [scaled, k, v, None], scale=2.0, causal=False, masked_rows="nan")]
    assert run_pass(g, "absorb_scalar") == [1]
    assert g.nodes[0].attributes["scale"] == 0.5


def test_a_scaled_value_that_is_query_and_key_is_read_in_both_places():
    x = torch.randn(1, 2, 5, 4)
    scaled = Function(lambda x: torch.nn.functional.scaled_dot_product_attention(x * 8, x * 8, x, is_causal=True))
    product = Function(lambda x: (x * 3) @ (x * 3)[..., :4, :])
    for model in (scaled.eval(), product.eval()):
        program = engine.compile(model, (x,), engine.Config(verify=True))
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("factor", [0.0, np.inf, np.nan])
def test_a_factor_that_hides_or_makes_nan_is_left_alone(factor):
    g = qkv()
    q, k, _ = g.inputs
    g.outputs = [g.emit("mul", [g.emit("matmul", [q, k], transpose_b=True), g.scalar(factor, "float32")])]
    with np.errstate(all="ignore"):
        assert run_pass(g, "absorb_scalar") == [0]


def test_a_scalar_divided_by_the_product_is_left_alone():
    g = qkv()
    q, k, _ = g.inputs
    g.outputs = [g.emit("div", [g.scalar(2.0, "float32"), g.emit("matmul", [q, k], transpose_b=True)])]
    assert run_pass(g, "absorb_scalar") == [0]


def test_a_product_that_others_read_keeps_its_scale():
    g = qkv()
    q, k, _ = g.inputs
    product = g.emit("matmul", [q, k], transpose_b=True)
    g.outputs = [product, g.emit("mul", [product, g.scalar(2.0, "float32")])]
    assert run_pass(g, "absorb_scalar") == [0]


def test_a_one_element_tensor_that_adds_an_axis_is_no_scalar():
    g = qkv()
    q, k, _ = g.inputs
    wide = g.constant(np.full((1, 1, 1, 1, 1), 2.0, np.float32))
    g.outputs = [g.emit("mul", [g.emit("matmul", [q, k], transpose_b=True), wide])]
    assert run_pass(g, "absorb_scalar") == [0]


TRIANGLE = np.tri(5, dtype=bool)


@pytest.mark.parametrize(
    ("mask", "causal"),
    [
        (np.ones((5, 5), bool), False),
        (np.zeros((5, 5), np.float32), False),
        (TRIANGLE, True),
        (TRIANGLE[None, None], True),
        (np.where(TRIANGLE, 0, -np.inf).astype(np.float32), True),
        (np.where(TRIANGLE, 0, np.finfo(np.float32).min).astype(np.float32), True),
    ],
)
def test_constant_masks_that_say_nothing_or_causal_go(mask, causal):
    g = qkv()
    g.outputs = [attention(g, g.constant(mask))]
    assert run_pass(g, "absorb_mask") == [1]
    assert g.nodes[0]["mask"] is None
    assert g.nodes[0].attributes["causal"] is causal


@pytest.mark.parametrize(
    "mask",
    [
        np.tri(5, k=1, dtype=bool),
        np.tri(5, k=-1, dtype=bool),
        TRIANGLE.T.copy(),
        np.where(TRIANGLE, 0, -1e9).astype(np.float32),
        np.where(TRIANGLE, 0.5, -np.inf).astype(np.float32),
        np.where(TRIANGLE, 0, np.finfo(np.float32).max).astype(np.float32),
        np.where(TRIANGLE & (np.arange(5) != np.arange(5)[:, None]), 0, np.finfo(np.float32).min).astype(np.float32),
        TRIANGLE[:1],
    ],
)
def test_masks_that_are_almost_causal_stay(mask):
    g = qkv()
    g.outputs = [attention(g, g.constant(mask))]
    assert run_pass(g, "absorb_mask") == [0]


def test_a_mask_made_of_inputs_stays():
    g = qkv()
    g.outputs = [attention(g, g.add_input("m", TensorType("bool", (5, 5))))]
    assert run_pass(g, "absorb_mask", inputs=random_inputs(g)) == [0]


def cached(*, keys: str = "state", low: float = -np.inf, high: float = 0.0) -> Graph:
    """Attention over a state of 5 keys, one of them written anew, as far as an input says."""
    g = qkv(rows=1)
    q, k, v = g.inputs
    keep = g.add_input("keep", TensorType("bool", (1, 1, 1, 5)))
    if keys == "state":
        g.states = [("keys", None)]
        g.inputs = [q, v, keep, k]
        written = g.emit("slice", [k], axis=2, start=0, stop=5)
        g.outputs = [k]
        k = written
    mask = g.emit("where", [keep, g.scalar(high, "float32"), g.scalar(low, "float32")])
    g.outputs = [g.emit("attention", [q, k, k if keys == "state" else v, mask], scale=0.5), *g.outputs]
    return g


def test_the_mask_of_a_cache_says_which_keys_count():
    g = cached()
    assert run_pass(g, "absorb_mask", "dead_code")[0] == 1
    assert [n["mask"].dtype for n in g.nodes if n.op.name == "attention"] == ["bool"]


@pytest.mark.parametrize("almost", [{"keys": "input"}, {"low": -1e9}, {"high": 1.0}])
def test_a_mask_that_weighs_or_hides_what_is_no_cache_stays(almost):
    g = cached(**almost)
    assert run_pass(g, "absorb_mask") == [0]


def test_a_triangle_on_fewer_rows_than_keys_is_causal_from_the_top_left():
    g = qkv(rows=3, keys=5)
    g.outputs = [attention(g, g.constant(np.tri(3, 5, dtype=bool)))]
    assert run_pass(g, "absorb_mask") == [1]
    g = qkv(rows=3, keys=5)
    g.outputs = [attention(g, g.constant(np.tri(3, 5, k=2, dtype=bool)))]
    assert run_pass(g, "absorb_mask") == [0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scaled", [lambda a, b: (a @ b) * 0.3, lambda a, b: (a * 0.3) @ b, lambda a, b: a @ (b / 3.3)])
def test_a_number_that_a_narrow_type_does_not_have_is_absorbed(scaled, dtype):
    a, b = torch.randn(2, 5, 8).to(dtype), torch.randn(2, 8, 6).to(dtype)
    program = engine.compile(Function(scaled).eval(), (a, b), engine.Config(target="interpreter", activations="model"))
    assert ops(program.graph) == ["matmul"]
    exact = scaled(a.double(), b.double())
    ulp = {torch.bfloat16: 2**-8, torch.float16: 2**-11}[dtype]
    assert (program(a, b).double() - exact).abs().max() <= ulp * exact.abs().max()
