"""The attribute `compute`: products of bfloat16 and of integers, against torch and against exact sums in Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from engine.encodings import FAMILIES, Stored
from engine.ops import TABLE, TensorType
from engine.ops.arithmetic import MOST_SUMMED, quantised_rows
from tests import messages

GENERATOR = np.random.default_rng(7)
LINEAR = {"activation": "none", "alpha": 1.0}
CONV = {"low": (0, 1), "high": (1, 0), "dilation": (1, 1), "activation": "none", "channels_last": False}


def random(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def stored(array, family, axis=0):
    encoding = FAMILIES[family].along(axis)
    return Stored(encoding, encoding.encode(array), "float32")


def quantised_in_torch(rows):
    """Integers and scales of each row, by torch's rounding, which is half to even."""
    rows = torch.tensor(rows)
    scale = rows.abs().amax(-1, keepdim=True) / 127
    scale[scale == 0] = 1
    return torch.round(rows / scale).clamp(-127, 127).to(torch.int64), scale


def exact(x, weight):
    """x [M, K] times the decoded weight [N, K], with x quantised, in fractions and rounded once."""
    whole, scale = quantised_in_torch(x)
    decoded = weight.encoding.decode(weight.components, "float64")  # the exact elements: scales have 24 bits at most
    found = np.empty((len(x), len(decoded)), np.float32)
    for m, row in enumerate(whole.tolist()):
        for n, column in enumerate(decoded.tolist()):
            total = sum((q * Fraction(w) for q, w in zip(row, column, strict=True)), Fraction(0))
            found[m, n] = float(total * Fraction(scale[m].item()))
    return found


@pytest.mark.parametrize("family", [name for name, one in FAMILIES.items() if one.is_integer])
@pytest.mark.parametrize("transposed", [True, False])
def test_int8_products_equal_exact_sums_for_every_integer_encoding(family, transposed):
    size = 256
    x, weight = random(3, size), random(5, size)
    x[1] = 0
    axis = 1 if FAMILIES[family].per == "group" else 0
    kept = stored(weight, family, axis)
    given = kept if transposed else stored(np.ascontiguousarray(weight.T), family, 1 - axis)
    found = TABLE["linear"].reference(x, given, None, None, transpose_weight=transposed, compute="int8", **LINEAR)
    np.testing.assert_allclose(found, exact(x, kept), rtol=1e-6, atol=1e-6)
    assert not found[1].any()


def test_rows_are_rounded_half_to_even_and_zero_rows_have_scale_1():
    rows = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5], [0, 0, 0, 0, 0, 0]], np.float32)
    data, scale = quantised_rows(rows)
    assert data.tolist() == [[127, 0, 2, 2, 0, -2], [0] * 6]
    assert scale.ravel().tolist() == [1, 1]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_row_that_is_not_finite_gives_nan_and_spoils_no_other(bad):
    x = random(2, 32)
    x[0, 3] = bad
    weight = stored(random(4, 32), "int8_channel")
    found = TABLE["linear"].reference(x, weight, None, None, transpose_weight=True, compute="int8", **LINEAR)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_int8_matmul_of_two_computed_factors_quantises_columns():
    a, b = random(2, 3, 40), random(2, 40, 6)
    found = TABLE["matmul"].reference(a, b, False, False, 0.5, "int8")
    rows, row_scale = quantised_in_torch(a)
    columns, column_scale = quantised_in_torch(np.ascontiguousarray(b.swapaxes(1, 2)))
    sums = torch.matmul(rows, columns.mT).double()
    expected = 0.5 * sums * row_scale.double() * column_scale.double().mT
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_int8_gated_linear_is_two_int8_linears():
    x, weight = random(4, 64), stored(random(10, 64), "int8_channel")
    bias = random(10)
    whole = TABLE["linear"].reference(x, weight, bias, None, transpose_weight=True, compute="int8", **LINEAR)
    found = TABLE["gated_linear"].reference(x, weight, bias, transpose_weight=True, activation="relu", compute="int8")
    np.testing.assert_allclose(found, np.maximum(whole[:, :5], 0) * whole[:, 5:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("family", ["int8_channel", "int8_tensor"])
def test_int8_conv_sums_integers_with_a_scale_for_each_image(family, groups):
    x, weight = random(3, 4, 7, 6), stored(random(6, 4 // groups, 3, 2), family)
    bias = random(6)
    how = CONV | {"stride": (2, 1), "groups": groups, "compute": "int8"}
    found = TABLE["conv"].reference(x, weight, bias, None, **how)
    whole, scale = quantised_in_torch(x.reshape(3, -1))
    image = torch.nn.functional.pad(whole.reshape(x.shape), (1, 0, 0, 1)).double()
    taps = torch.tensor(weight.encoding.integers(weight.components)).double()
    sums = torch.nn.functional.conv2d(image, taps, stride=(2, 1), groups=groups)
    per_channel = torch.tensor(weight.components["scale"]).double().reshape(1, -1, 1, 1)
    expected = sums * per_channel * scale.double().reshape(3, 1, 1, 1) + torch.tensor(bias).double().reshape(
        1, -1, 1, 1
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6, atol=1e-6)


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


def refused(op, x, weight, encoding, **attributes):
    declared = TABLE[op]
    types = [TensorType("float32", x), TensorType("float32", weight, encoding)]
    types += [None] * (len(declared.inputs) - 2)
    with messages.raises(ValueError):
        declared.infer_types(types, declared.complete({"compute": "int8", **attributes}))


def test_int8_refuses_weights_that_it_cannot_read():
    channel, group = FAMILIES["int8_channel"], FAMILIES["q8_0"]
    refused("linear", (2, 32), (4, 32), None)
    refused("linear", (2, 32), (4, 32), FAMILIES["bfloat16"])
    refused("linear", (2, 32), (4, 32), channel.along(1))
    refused("gated_linear", (2, 32), (32, 64), group.along(1), transpose_weight=False)
    refused("linear", (2, MOST_SUMMED + 1), (4, MOST_SUMMED + 1), channel)
    refused("matmul", (2, 32), (3, 32, 32), channel.along(2))
    conv = {name: CONV[name] for name in ("low", "high", "dilation")} | {"stride": (1, 1)}
    refused("conv", (1, 32, 4, 4), (4, 32, 1, 1), group.along(1), **conv)
    refused("conv", (1, 32, 4, 4), (4, 32, 1, 1), None, **conv)
