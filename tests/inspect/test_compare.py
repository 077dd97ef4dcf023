"""`engine.compare`: each number against NumPy's or torch's own, structures of all kinds, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch

import engine
from engine.inspect import compare as module
from tests import messages


class Pair(NamedTuple):
    first: object
    second: object


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    loss: torch.Tensor | None = None


def only(*arguments, **options):
    (found,) = engine.compare(*arguments, **options).differences
    return found


def test_the_numbers_of_a_tensor():
    expected = np.array([[1.0, -2.0], [4.0, 0.0]], np.float32)
    result = np.array([[1.5, -2.0], [3.0, 0.25]], np.float32)
    one = only(result, expected)
    assert (one.max_abs, one.mean_abs) == (1.0, 1.75 / 4)
    assert one.rmse == pytest.approx(np.sqrt((0.25 + 1 + 0.0625) / 4))
    assert one.max_rel == 0.5, "an expected 0 has no relative error"
    assert one.cosine == pytest.approx((1.5 + 4 + 12) / np.linalg.norm(result) / np.linalg.norm(expected))
    assert one.beyond == 3 / 4
    assert (one.worst, one.values) == ((1, 0), (3.0, 4.0))
    assert one.dtypes == ("float32", "float32")
    assert one.shape == (2, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [-20, -1, 0, 3])
def test_an_ulp_is_the_distance_to_the_next_number(dtype, exponent):
    one = torch.tensor([1.25 * 2.0**exponent], dtype=getattr(torch, dtype))
    two = torch.nextafter(one, torch.tensor([torch.inf], dtype=one.dtype))
    smallest = torch.finfo(one.dtype).smallest_normal
    assert only(two, one).max_ulp == (1 if one >= smallest else pytest.approx(1))


def test_of_two_types_the_one_with_fewer_digits_counts():
    exact = torch.full((3,), 1.0)
    rounded = torch.full((3,), 1.0 + 2**-7, dtype=torch.bfloat16)
    for one in (only(rounded, exact), only(exact, rounded)):
        assert one.is_close
        assert one.rtol == module.TOLERANCES["bfloat16"][1]
        assert one.max_ulp == 1


@pytest.mark.parametrize("dtype", module.TOLERANCES)
def test_tolerances_are_those_of_torch(dtype):
    kind = getattr(torch, dtype)
    expected = torch.tensor([1.0, 100.0], dtype=torch.float64)
    for factor in (0.5, 2.0):
        atol, rtol = module.TOLERANCES[dtype]
        result = expected + factor * (atol + rtol * expected)
        try:  # torch takes the tolerance of the type, which is given here, since the values are float64
            torch.testing.assert_close(result.to(kind).double(), expected.to(kind).double(), atol=atol, rtol=rtol)
            theirs = True
        except AssertionError:
            theirs = False
        assert only(result.to(kind), expected.to(kind)).is_close == theirs
    torch.testing.assert_close(torch.ones(1, dtype=kind) * (1 + rtol / 2), torch.ones(1, dtype=kind))


def test_integers_and_truth_values_compare_exactly():
    assert not only(np.array([1, 2]), np.array([1, 3])).is_close
    assert only(np.array([True, False]), np.array([True, False])).is_close
    assert only(np.array([7]), np.array([4])).max_ulp == 3


def test_nan_and_infinities_must_be_in_the_same_places():
    inf, nan = np.inf, np.nan
    one = only(np.array([nan, inf, -inf, inf, 1.0]), np.array([1.0, inf, inf, 2.0, 1.0]))
    assert (one.nan, one.inf, one.beyond) == (1, 2, 3 / 5)
    assert one.worst == (0,)
    assert one.max_abs == 0
    both = np.array([nan, 1.0])
    assert not only(both, both).is_close
    assert only(both, both, equal_nan=True).is_close
    assert "1 elements with a NaN that counts as a difference" in str(engine.compare(both, both))


def test_complex_numbers_differ_by_the_magnitude_of_their_difference():
    one = only(np.array([3 + 4j]), np.array([0j]))
    assert one.max_abs == 5
    assert engine.compare(np.array([1j]), np.array([2j])).to_dict()["differences"][0]["values"] == ["1j", "2j"]


def test_structures_of_all_kinds_have_a_name_for_each_tensor():
    logits, state = torch.ones(2), torch.zeros(3)
    result = {"a": Output(logits, (state, state + 1)), "b": [Pair(logits, 2.0), None, "text"]}
    found = engine.compare(result, result)
    names = ["['a']['logits']", "['a']['hidden'][0]", "['a']['hidden'][1]", "['b'][0]['first']", "['b'][0]['second']"]
    assert [one.name for one in found.differences] == names
    assert found.skipped == ("['b'][2]",)
    assert found.is_close


def test_outputs_of_transformers_are_mappings():
    from transformers.modeling_outputs import BaseModelOutput

    found = engine.compare(BaseModelOutput(torch.ones(2)), BaseModelOutput(torch.ones(2)))
    assert [one.name for one in found.differences] == ["['last_hidden_state']"]


def test_the_worst_tensor_has_the_largest_share_beyond_tolerance():
    found = engine.compare([np.ones(2), np.zeros(2), np.ones(4)], [np.ones(2), np.ones(2), np.array([9.0, 1, 1, 1])])
    assert found.worst.name == "[1]"
    assert not found.is_close


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ([np.ones(2)], [np.ones(2), np.ones(3)]),
        (np.ones(2), {"logits": np.ones(2)}),
        (np.ones((2, 3)), np.ones((3, 2))),
        ("text", "text"),
        ([], []),
        (np.ones((0, 3)), np.ones((0, 3))),
    ],
    ids=["count", "structure", "shape", "text", "nothing", "empty"],
)
def test_what_cannot_be_compared_is_refused(result, expected):
    with messages.raises(engine.ComparisonError):
        engine.compare(result, expected)


def test_a_heat_map_shows_each_large_error(tmp_path):
    pytest.importorskip("matplotlib")
    expected = np.zeros((700, 3, 900), np.float32)
    result = expected.copy()
    result[650, 1, 899] = 5
    assert np.nanmax(module._reduce(np.abs(result - expected))) == 5
    assert module._reduce(np.abs(result - expected)).shape == (module._CELLS, module._CELLS)
    found = engine.compare([np.ones(2), result], [np.ones(2), expected])
    for name in ("error.png", "error.svg"):
        found.heatmap(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with messages.raises(engine.ComparisonError):
        found.heatmap(tmp_path / "no.png", "[2]")


def test_a_number_and_a_tensor_without_axes():
    assert only(torch.tensor(2.0), 2.0).is_close
    assert str(engine.compare(3.0, 2.0)).splitlines()[1].split()[0] == "result"


def test_integers_of_64_bits_are_compared_exactly():
    found = engine.compare(np.array([2**62 + 1, 5]), np.array([2**62, 5]))
    (one,) = found.differences
    assert (one.max_abs, one.beyond, one.worst) == (1, 0.5, (0,))
    assert engine.compare(np.array([2**62 + 1]), np.array([2**62 + 1])).is_close
