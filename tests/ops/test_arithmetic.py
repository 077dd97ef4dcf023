"""The attribute `compute`: products of bfloat16 and of integers, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.encodings import FAMILIES, Stored
from engine.ops import TABLE, TensorType
from engine.ops.arithmetic import MOST_SUMMED
from tests import messages

GENERATOR = np.random.default_rng(7)
LINEAR = {"activation": "none", "alpha": 1.0}
CONV = {"low": (0, 1), "high": (1, 0), "dilation": (1, 1), "activation": "none", "channels_last": False}


def random(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def stored(array, family, axis=0):
    encoding = FAMILIES[family].along(axis)
    return Stored(encoding, encoding.encode(array), "float32")


def exact(x, weight):
    """x [M, K] times the weight [N, K], quantised by torch and summed in whole numbers, then scaled in float32."""
    rows = torch.tensor(x)
    scale = (rows.abs().amax(-1, keepdim=True) / 127).clamp_min(2.0**-126)
    whole = torch.round(rows * (1 / scale)).to(torch.int64)  # half to even
    sums = torch.matmul(whole, torch.tensor(weight.encoding.integers(weight.components)).long().T)
    return (sums.float() * torch.tensor(weight.components["scale"]) * scale).numpy()


def multiply(op, x, weight, *others, **attributes):
    data, scale = TABLE["quantize_rows"].reference(x)
    return TABLE[op].reference(data, weight, *others, scale, compute="int8", **attributes)


@pytest.mark.parametrize("transposed", [True, False])
def test_int8_products_equal_exact_sums(transposed):
    x, weight = random(3, 256), random(5, 256)
    x[1] = 0
    kept = stored(weight, "int8_channel")
    given = kept if transposed else stored(np.ascontiguousarray(weight.T), "int8_channel", 1)
    found = multiply("linear", x, given, None, None, transpose_weight=transposed, **LINEAR)
    np.testing.assert_array_equal(found, exact(x, kept))
    assert found.dtype == np.float32
    assert not found[1].any()


@pytest.mark.parametrize("size", [1, 3, 65537])
def test_int8_products_of_any_depth(size):
    x, weight = random(2, size), stored(random(3, size), "int8_channel")
    weight.components["data"][0] = -128  # as a model may have it
    x[0] = 1
    found = multiply("linear", x, weight, None, None, transpose_weight=True, **LINEAR)
    np.testing.assert_array_equal(found, exact(x, weight))


def test_the_largest_sum_fits_32_bits():
    assert 127 * 128 * MOST_SUMMED < 2**31 <= 127 * 128 * (MOST_SUMMED + 1)


def test_steps_behind_the_product_are_rounded_to_float32():
    x, weight, bias, residual = random(4, 64), stored(random(10, 64), "int8_channel"), random(10), random(4, 10)
    found = multiply("linear", x, weight, bias, residual, transpose_weight=True, activation="relu", alpha=0.3)
    product = torch.tensor(exact(x, weight)) * 0.3
    np.testing.assert_array_equal(found, torch.relu(product + torch.tensor(bias) + torch.tensor(residual)).numpy())


def test_one_outlier_takes_the_digits_of_its_row_and_of_no_other():
    x, weight = random(2, 64), stored(random(4, 64), "int8_channel")
    x[0, 5] = 1e6
    data, scale = TABLE["quantize_rows"].reference(x)
    assert data[0].tolist() == [127 if k == 5 else 0 for k in range(64)]
    assert scale[0] == np.float32(1e6) / np.float32(127)
    found = multiply("linear", x, weight, None, None, transpose_weight=True, **LINEAR)
    np.testing.assert_array_equal(found, exact(x, weight))
    np.testing.assert_allclose(found[1], x[1] @ weight.elements().T, atol=0.2)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_row_that_is_not_finite_gives_nan_and_spoils_no_other(bad):
    x = random(2, 32)
    x[0, 3] = bad
    weight = stored(random(4, 32), "int8_channel")
    found = multiply("linear", x, weight, None, None, transpose_weight=True, **LINEAR)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_int8_gated_linear_is_two_int8_linears():
    x, weight = random(4, 64), stored(random(10, 64), "int8_channel")
    bias = random(10)
    whole = multiply("linear", x, weight, bias, None, transpose_weight=True, **LINEAR)
    found = multiply("gated_linear", x, weight, bias, transpose_weight=True, activation="relu")
    np.testing.assert_array_equal(found, np.maximum(whole[:, :5], 0) * whole[:, 5:])


def test_bfloat16_products_round_both_factors_and_nothing_else():
    x, weight, bias = random(5, 48), random(7, 48), random(7)
    found = TABLE["linear"].reference(x, weight, bias, None, transpose_weight=True, compute="bfloat16", **LINEAR)
    a, b = (torch.tensor(one).bfloat16().double() for one in (x, weight))
    np.testing.assert_allclose(found, (a @ b.T + torch.tensor(bias).double()).float().numpy(), rtol=1e-6)
    image, taps = random(1, 2, 5, 5), random(3, 2, 3, 3)
    how = CONV | {"low": (0, 0), "high": (0, 0), "stride": (1, 1), "groups": 1, "compute": "bfloat16"}
    a, b = (torch.tensor(one).bfloat16().double() for one in (image, taps))
    expected = torch.nn.functional.conv2d(a, b).float().numpy()
    np.testing.assert_allclose(TABLE["conv"].reference(image, taps, None, None, **how), expected, rtol=1e-5, atol=1e-6)


def refused(op, x, weight, encoding, scale=(2, 1), dtype="int8", **attributes):
    declared = TABLE[op]
    types = [TensorType(dtype, x), TensorType("float32", weight, encoding)]
    types += [None] * (len(declared.inputs) - 3) + [scale and TensorType("float32", scale)]
    with messages.raises(ValueError):
        declared.infer_types(types, declared.complete({"compute": "int8", **attributes}))


def test_int8_refuses_factors_that_it_cannot_read():
    channel, group = FAMILIES["int8_channel"], FAMILIES["q8_0"]
    refused("linear", (2, 32), (4, 32), None)
    refused("linear", (2, 32), (4, 32), FAMILIES["bfloat16"])
    refused("linear", (2, 32), (4, 32), channel.along(1))
    refused("gated_linear", (2, 32), (32, 64), group.along(0), transpose_weight=False)
    refused("linear", (2, MOST_SUMMED + 1), (4, MOST_SUMMED + 1), channel)
    refused("linear", (2, 32), (4, 32), channel, dtype="float32")
    refused("linear", (2, 32), (4, 32), channel, scale=None)
    refused("linear", (2, 32), (4, 32), channel, scale=(2,))
    refused("gated_linear", (2, 32), (4, 32), channel, scale=(1, 1))
    refused("linear", (2, 32), (4, 32), None, dtype="float32", compute="element")
    with messages.raises(ValueError):
        TABLE["conv"].complete({"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "compute": "int8"})
