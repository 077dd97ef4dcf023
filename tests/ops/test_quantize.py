"""Quantised activations at their edges, against torch and numbers by hand, and in programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed

import engine
from engine.errors import ProgramError
from engine.graph import Graph
from engine.ops import TABLE, TensorType
from engine.program import save
from tests import messages


def quantize(x, scale, zero=0, dtype="int8"):
    return TABLE["quantize"].reference(np.asarray(x), scale, zero, dtype)


def dequantize(x, scale, zero=0, dtype="float32"):
    return TABLE["dequantize"].reference(np.asarray(x), scale, zero, dtype)


@pytest.mark.parametrize(
    ("dtype", "zero"), [("int8", 0), ("int8", -128), ("int8", 127), ("uint8", 0), ("uint8", 255), ("uint8", 99)]
)
@pytest.mark.parametrize("scale", [2.0**-6, 0.25, 8.0])
def test_a_scale_that_is_a_power_of_two_gives_the_integers_of_torch(dtype, zero, scale):
    """The ops of torch's quantised models, which multiply by 1 / scale. That is exact for these scales alone."""
    x = np.random.default_rng(0).normal(0, 100 * scale, 4096).astype(np.float32)
    x[:512] = (np.arange(512) - 256) * np.float32(scale / 2)  # every tie
    how = (scale, zero, *(getattr(torch.iinfo(getattr(torch, dtype)), end) for end in ("min", "max")))
    decomposed = torch.ops.quantized_decomposed
    expected = decomposed.quantize_per_tensor(torch.from_numpy(x), *how, getattr(torch, dtype))
    found = quantize(x, scale, zero, dtype)
    np.testing.assert_array_equal(found, expected.numpy())
    elements = decomposed.dequantize_per_tensor(expected, *how, getattr(torch, dtype))
    np.testing.assert_array_equal(dequantize(found, scale, zero), elements.numpy())


def test_the_quotient_is_rounded_to_float32_and_then_half_to_even():
    scale = np.float32(0.1)
    near_ties = (np.arange(-100, 100) + 0.5) * np.float64(scale)  # their quotients are ties in float32 alone
    x = np.concatenate([np.linspace(-12, 12, 9973), near_ties]).astype(np.float32)
    expected = [round(float(np.float32(one / scale))) for one in x]  # Python rounds half to even
    np.testing.assert_array_equal(quantize(x, 0.1), expected)
    np.testing.assert_array_equal(quantize(np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32), 1.0), [0, 2, 2, 0, -2])


@pytest.mark.parametrize(("dtype", "least", "most"), [("int8", -128, 127), ("uint8", 0, 255)])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_what_is_out_of_range_is_clipped_and_nan_is_the_zero_point(dtype, least, most, kind):
    x = np.array([np.inf, -np.inf, 6e4, -6e4, np.nan, 0.0, -0.0], kind)
    for zero in (least, least + 1, most - 1, most):
        np.testing.assert_array_equal(quantize(x, 1.0, zero, dtype), [most, least, most, least, zero, zero, zero])
        assert quantize(np.array(3e38), 1e-38, zero, dtype) == most  # the quotient is infinite in float32


def test_elements_are_exact_and_rounded_once():
    integers = np.arange(-128, 128).astype(np.int8)
    for dtype in ("float64", "float32", "float16"):
        exact = [np.array((int(q) - 3) * float(np.float32(0.1))).astype(dtype) for q in integers]
        np.testing.assert_array_equal(dequantize(integers, 0.1, 3, dtype), exact)
    # 255 * s has 32 bits; rounded to float32 first, its bfloat16 would be another for some scale.
    scales = np.random.default_rng(0).random(20000).astype(np.float32)
    wide = torch.from_numpy(255.0 * scales.astype(np.float64))
    expected = (wide.numpy().astype(dequantize(integers, 1.0, dtype="bfloat16").dtype)).astype(np.float32)
    found = [dequantize(np.uint8(255), float(scale), dtype="bfloat16").astype(np.float32) for scale in scales]
    np.testing.assert_array_equal(found, expected)


def test_a_value_that_a_pair_has_made_is_not_changed_by_another():
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    once = dequantize(quantize(x, 0.013, 7), 0.013, 7)
    np.testing.assert_array_equal(dequantize(quantize(once, 0.013, 7), 0.013, 7), once)


@pytest.fixture
def file(tmp_path):
    graph = Graph("pair")
    x = graph.add_input("x", TensorType("float32", (3,)))
    integers = graph.emit("quantize", [x], scale=0.5, zero=-3)
    graph.outputs = [graph.emit("dequantize", [integers], scale=0.5, zero=-3)]
    save(tmp_path / "pair", graph)
    return tmp_path / "pair"


def test_the_interpreter_runs_a_program_with_quantised_values(file):
    program = engine.load(file, config=engine.Config(target="interpreter"))
    (found,) = program(np.array([0.3, -99, 99], np.float32))
    np.testing.assert_array_equal(np.asarray(found), [0.5, -62.5, 65.0])
    assert [n.attributes["zero"] for n in program.graph.nodes] == [-3, -3]


def test_the_cpu_refuses_it_by_the_names_of_both_ops(file):
    with messages.raises(ProgramError):
        engine.load(file)
