"""Encodings of constants: their values against torch and GGUF's own reader, and parts of them against NumPy."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from gguf import GGMLQuantizationType as Kind

from engine import encodings
from engine.encodings import FAMILIES, Encoding, encoding
from tests import messages

SHAPE = (256, 128)


def instances(shape=SHAPE) -> list[Encoding]:
    """Every encoding at every axis that it can have for this shape."""
    found = {one.along(axis) for one in FAMILIES.values() for axis in range(len(shape))}
    fitting = []
    for one in sorted(found, key=str):
        try:
            one.check(shape)
        except ValueError:
            continue
        fitting.append(one)
    return fitting


def elements(shape=SHAPE, seed=0):
    """Numbers of both signs whose magnitude differs from row to row and column to column; a row of zeros."""
    generator = np.random.default_rng(seed)
    scale = np.exp(generator.normal(size=(shape[0], *[1] * (len(shape) - 1))))
    values = (generator.normal(size=shape) * scale).astype(np.float32)
    values[3] = 0
    return values


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", instances(), ids=str)
def test_text_names_the_encoding(one):
    assert encoding(str(one)) == one


@pytest.mark.parametrize("text", ["", "int3", "int8_channel", "int8_channel@", "int8_channel@-1", "int8_channel@01",
                                  "int8_tensor@0", "bfloat16@1", "int8_channel@999999999999"])  # fmt: skip
def test_other_text_is_refused(text):
    with messages.raises(ValueError):
        encoding(text)


def test_a_name_is_declared_once():
    with messages.raises(ValueError):
        encodings.declare(Encoding("q4_0", "uint8", 4))


@pytest.mark.parametrize("one", instances(), ids=str)
def test_components_have_the_types_that_are_declared(one):
    components = one.encode(elements())
    declared = one.component_types(SHAPE)
    assert {name: (array.dtype.name, array.shape) for name, array in components.items()} == declared
    assert one.nbytes(SHAPE) == sum(array.nbytes for array in components.values())


@pytest.mark.parametrize(
    ("text", "bits"),
    [("bfloat16", 16), ("int8_tensor", 8), ("int8_channel@0", 8), ("int4_group32@1", 5),
     ("int4_group128_zero@1", 4.3125), ("q8_0@1", 8.5), ("q4_0@1", 4.5), ("q4_1@1", 5)],
)  # fmt: skip
def test_bits_an_element(text, bits):
    shape = (1024, 4096)
    scales = {"int8_tensor": 4, "int8_channel@0": 4 * 1024}.get(text, 0)
    assert encoding(text).nbytes(shape) == shape[0] * shape[1] * bits / 8 + scales


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_is_quantised_and_dequantised_as_torch_does_it(axis):
    one, values = encoding(f"int8_channel@{axis}"), elements()
    components = one.encode(values)
    scales, zeros = torch.from_numpy(components["scale"]), torch.zeros(SHAPE[axis], dtype=torch.int64)
    how = (scales, zeros, axis, -127, 127, torch.int8)
    theirs = torch.ops.quantized_decomposed.quantize_per_channel(torch.from_numpy(values), *how)
    # torch multiplies by the reciprocal of the scale, which rounds another way next to a tie.
    assert (theirs.numpy() != components["data"]).mean() < 1e-3
    expected = torch.ops.quantized_decomposed.dequantize_per_channel(torch.from_numpy(components["data"]), *how)
    np.testing.assert_array_equal(one.decode(components, "float32"), expected.numpy())


@pytest.mark.parametrize(("family", "kind"), [("q8_0", Kind.Q8_0), ("q4_0", Kind.Q4_0), ("q4_1", Kind.Q4_1)])
def test_decoding_the_blocks_of_gguf_is_its_readers(family, kind):
    """Their blocks: scale, minimum where there is one, then 32 integers; of 4 bits the first half lies low."""
    values = elements()
    raw = gguf.quants.quantize(values, kind)
    blocks = raw.reshape(SHAPE[0], SHAPE[1] // 32, -1)
    numbers = 2 if kind is Kind.Q4_1 else 1
    head = np.ascontiguousarray(blocks[..., : 2 * numbers]).view(np.float16)
    body = blocks[..., 2 * numbers :]
    if kind is Kind.Q8_0:
        data = body.view(np.int8)
    else:
        whole = np.concatenate([body & 15, body >> 4], -1)
        data = whole[..., 0::2] | whole[..., 1::2] << 4
    components = {"data": data.reshape(SHAPE[0], -1), "scale": head[..., 0]}
    if numbers == 2:
        components["zero"] = head[..., 1]
    one = encoding(f"{family}@1")
    assert one.component_types(SHAPE) == {n: (a.dtype.name, a.shape) for n, a in components.items()}
    np.testing.assert_array_equal(one.decode(components, "float32"), gguf.quants.dequantize(raw, kind))


@pytest.mark.parametrize("one", instances(), ids=str)
def test_an_element_is_off_by_half_a_step_at_most(one):
    values = elements()
    decoded = one.decode(one.encode(values), "float64")
    if not one.is_integer:
        expected = torch.from_numpy(values).to(getattr(torch, one.stored)).double().numpy()
        np.testing.assert_array_equal(decoded, expected)
        return
    step = one._spread(one.encode(values)["scale"], SHAPE).astype(np.float64)
    # Scales and minima of 16 bits are off by 2^-11 of themselves, which moves the ends of a range.
    slack = 2**-10 * np.abs(values).max() if one.scale == "float16" else 1e-6 * np.abs(values).max()
    assert (np.abs(decoded - values) <= step / 2 + slack).all()
    assert (decoded[3] == 0).all() or one.zero == "minimum"


def test_halves_are_rounded_to_even():
    values = np.array([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    assert encoding("int8_channel@0").encode(values)["data"].tolist() == [[127, 0, 2, 2, 0, -2]]


def test_integers_are_multiplied_exactly_and_rounded_once():
    scale = np.float32(1.1920930376163597)
    one = encoding("int8_tensor")
    decoded = one.decode({"data": np.array([77], np.int8), "scale": np.array(scale)}, "bfloat16")
    assert float(decoded[0]) == float(torch.tensor(77 * float(scale), dtype=torch.float64).to(torch.bfloat16))


def test_four_bits_lie_two_in_a_byte_the_first_one_low():
    data = np.zeros((1, 32), np.uint8)
    data[0, :4] = [1, 2, 3, 15]
    assert encoding("q4_0@1")._packed(data)[0, :2].tolist() == [0x21, 0xF3]


@pytest.mark.parametrize("one", [one for one in instances() if one.per == "group"], ids=str)
def test_groups_must_fit(one):
    shape = list(SHAPE)
    shape[one.axis] += 16
    with messages.raises(ValueError):
        one.component_types(tuple(shape))


@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 0)])
def test_empty_tensors(shape):
    for one in instances(shape):
        components = one.encode(np.zeros(shape, np.float32))
        assert one.decode(components, "float32").shape == shape


# --- parts -----------------------------------------------------------------------------------------------------------


def types_of(components):
    return {name: (array.dtype.name, array.shape) for name, array in components.items()}


@pytest.mark.parametrize("one", instances(), ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("start", "stop"), [(0, 128), (64, 128), (32, 96), (0, 7), (5, 9), (128, 128)])
def test_a_cut_decodes_as_the_cut_of_the_whole(one, axis, start, stop):
    components, cuts = one.encode(elements()), one.cuts(axis, start, stop)
    assert (cuts is None) == bool(one.per == "group" and axis == one.axis and (start % one.group or stop % one.group))
    if cuts is None:
        return
    found = {}
    for name, array in components.items():
        found[name] = array if cuts[name] is None else np.take(array, range(*cuts[name][1:]), cuts[name][0])
    where = (slice(None),) * axis + (slice(start, stop),)
    np.testing.assert_array_equal(one.decode(found, "float32"), one.decode(components, "float32")[where])
    assert types_of(found) == one.component_types(tuple(stop - start if a == axis else n for a, n in enumerate(SHAPE)))


@pytest.mark.parametrize("one", instances(), ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_joined_tensors_decode_as_their_elements_joined(one, axis):
    parts, axes = [one.encode(elements(seed=seed)) for seed in (0, 1)], one.joined_axes(axis)
    assert (axes is None) == (one.per == "tensor" or (one.per == "channel" and axis != one.axis))
    if axes is not None:
        found = {name: np.concatenate([part[name] for part in parts], axes[name]) for name in parts[0]}
        whole = np.concatenate([one.decode(part, "float32") for part in parts], axis)
        np.testing.assert_array_equal(one.decode(found, "float32"), whole)


@pytest.mark.parametrize(
    "order", [(2, 0, 1), *(pytest.param(order, marks=pytest.mark.long) for order in ((0, 1, 2), (1, 2, 0), (0, 2, 1)))]
)
def test_a_permuted_tensor_decodes_as_its_elements_permuted(order):
    shape = (64, 128, 32)
    for one in instances(shape):
        components, (other, with_scales) = one.encode(elements(shape)), one.permuted(order)
        moved = {n: a.transpose(order) if n == "data" or with_scales else a for n, a in components.items()}
        expected = one.decode(components, "float32").transpose(order)
        np.testing.assert_array_equal(other.decode(moved, "float32"), expected, str(one))


@pytest.mark.parametrize("other", [(32, 64, 2, 2), (32, 256, 1), (32, 256), (8192,), (64, 128), (32, 128, 2)])
def test_a_tensor_that_survives_a_reshape_decodes_as_its_elements_reshaped(other):
    shape = (32, 64, 4)
    survived = 0
    for one in instances(shape):
        if one.survives_reshape(shape, other):
            components, types = one.encode(elements(shape)), one.component_types(other)
            moved = {name: array.reshape(types[name][1]) for name, array in components.items()}
            expected = one.decode(components, "float32").reshape(other)
            np.testing.assert_array_equal(one.decode(moved, "float32"), expected, str(one))
            survived += 1
    assert survived >= 3


@pytest.mark.parametrize("one", instances(), ids=str)
def test_rows_decode_as_the_rows_of_the_whole(one):
    components, rows, where = one.encode(elements()), one.rows(), np.array([5, 3, 5, 255])
    assert (rows is None) == (one.per == "group" and one.axis == 0)
    if rows is not None:
        found = {name: array[where] if rows[name] else array for name, array in components.items()}
        np.testing.assert_array_equal(one.decode(found, "float32"), one.decode(components, "float32")[where])


def test_runs_of_channels_share_the_scale_of_the_largest():
    values = np.array([[1, -2], [4, 0], [0.5, 0.25]], np.float32)
    found = encoding("int8_channel@0").encode(values, (2, 0, 1))
    np.testing.assert_array_equal(found["scale"] * 127, np.array([4, 4, 0.5], np.float32))
    assert found["data"].tolist() == [[32, -64], [127, 0], [127, 64]]
    empty = encoding("int8_channel@0").encode(values[:0], (0,))
    assert [part.shape for part in empty.values()] == [(0, 2), (0,)]
