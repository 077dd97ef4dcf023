"""What counts as a right output."""

from __future__ import annotations

import numpy as np
import pytest

from suites.harness.judge import verify
from suites.harness.judge.verify import Reference
from suites.harness.record import outputs


def reference(values, error=1e-7, dtype="float32"):
    return Reference([np.asarray(values, np.float64)], [dtype], [error], None)


def reason(output, expected, dtype="float32"):
    return verify.check([np.asarray(output)], [dtype], expected).reason


def test_the_error_is_the_norm_of_the_difference_over_the_norm():
    found = verify.compare(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    assert found.relative == pytest.approx(0.1)
    assert found.max_abs == pytest.approx(0.5)


def test_the_tolerance_is_the_factor_times_eagers_own_error():
    expected = reference([1.0, 1.0], error=1e-6)
    assert expected.tolerance(0) == verify.TOLERANCE_FACTOR * 1e-6
    assert reason([1.0, 1.0 + 3e-5], expected) is None
    assert "allowed" in reason([1.0, 1.0 + 6e-5], expected)


def test_steps_of_a_rounded_case_share_what_eager_is_wrong_by():
    """One step of eager may be right by chance. Outputs of other shapes or types do not count."""
    outputs, dtypes = [np.ones(2), np.ones(2), np.ones(3), np.ones(2)], ["bfloat16"] * 3 + ["float32"]
    steps = Reference(outputs, dtypes, [0.003, 0.011, 0.002, 0.005], None, "rounded")
    pooled = ((0.003**2 + 0.011**2) / 2) ** 0.5
    assert steps.tolerance(0) == pytest.approx(verify.ROUNDED_FACTOR * pooled)
    assert steps.tolerance(1) == pytest.approx(verify.ROUNDED_FACTOR * 0.011)
    assert steps.tolerance(2) == 2.0**-7
    assert steps.tolerance(3) == pytest.approx(verify.ROUNDED_FACTOR * 0.005)
    exact = Reference(outputs[:2], dtypes[:2], [0.001, 0.003], None)
    assert exact.tolerance(0) == verify.TOLERANCE_FACTOR * 0.001


def test_where_eager_itself_is_far_off_nothing_is_right():
    """A model that draws random numbers, say: any answer would be as near as eager's."""
    random = reference([1.0, 1.0], error=0.7)
    assert random.tolerance(0) == verify.MOST_TOLERANCE
    assert reason([0.0, 0.0], random).endswith("eager's own is 7.00e-01, so nothing can be verified")
    assert reason([1.0, 1.0], random) is None
    assert "eager" not in reason([0.0, 0.0], reference([1.0, 1.0], error=1e-6)), "a wrong answer is not eager's fault"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reference_without_a_finite_number_verifies_nothing(value):
    assert "nothing can be compared" in reason([value, value], reference([value, value]))


def test_outputs_without_elements_verify_nothing():
    empty = Reference([np.zeros((0, 4))], ["float32"], [0.0], None)
    assert reason(np.zeros((0, 4), np.float32), empty) == "its outputs have no elements, so nothing can be verified"
    none = Reference([], [], [], None)
    assert verify.check([], [], none).reason == "the model returns no tensor, so nothing can be verified"


def test_a_graph_that_only_copies_may_be_off_by_a_few_units_in_the_last_place():
    expected = reference([1.0], error=0.0)
    assert expected.tolerance(0) == verify.TOLERANCE_ULPS * 2.0**-23
    assert reason(np.float32([1 + 2.0**-23]), expected) is None
    assert reason([1 + 1e-5], expected) is not None


def test_integers_must_agree_exactly():
    expected = Reference([np.array([1, 2, 3])], ["int64"], [0.0], None)
    assert verify.check([np.array([1, 2, 3])], ["int64"], expected).reason is None
    assert verify.check([np.array([1, 2, 4])], ["int64"], expected).reason is not None


def test_imaginary_parts_are_compared():
    expected = Reference([np.array([3 + 4j])], ["complex64"], [0.0], None)
    assert verify.check([np.complex64([3 + 4j])], ["complex64"], expected).reason is None
    verdict = verify.check([np.complex64([3 + 4.5j])], ["complex64"], expected)
    assert (verdict.relative, verdict.max_abs) == (0.1, 0.5)  # half a unit of a vector of length 5
    assert verdict.reason is not None
    not_a_number = verify.check([np.complex64([complex(3, np.nan)])], ["complex64"], expected)
    assert "NaN where the reference has none" in not_a_number.reason


def test_complex_numbers_may_be_off_by_a_few_units_in_the_last_place_of_their_parts():
    expected = Reference([np.array([1 + 0j])], ["complex64"], [0.0], None)
    assert expected.tolerance(0) == verify.TOLERANCE_ULPS * 2.0**-23


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_at_the_same_places(value):
    expected = reference([1.0, value])
    assert reason([1.0, value], expected) is None
    assert reason([1.0, 2.0], expected) is not None
    assert reason([value, value], expected) is not None


def test_the_two_infinities_differ():
    assert reason([np.inf, 1.0], reference([-np.inf, 1.0])) is not None


def test_nan_does_not_equal_a_number():
    assert reason([np.nan], reference([0.0])) is not None


@pytest.mark.parametrize(
    ("outputs", "dtypes", "words"),
    [
        ([np.ones(3)], ["float32"], "shape"),
        ([np.ones(2)], ["float64"], "dtype float64, expected float32"),
        ([np.ones(2), np.ones(2)], ["float32", "float32"], "2 outputs, expected 1"),
        ([], [], "0 outputs, expected 1"),
    ],
)
def test_structure_must_agree(outputs, dtypes, words):
    assert words in verify.check(outputs, dtypes, reference([1.0, 1.0])).reason


def test_any_error_against_a_zero_reference_is_wrong():
    assert reason([0.0, 0.0], reference([0.0, 0.0], error=0.0)) is None
    assert reason([0.0, 1e-9], reference([0.0, 0.0], error=0.0)) is not None


def test_an_empty_output_beside_others_is_right():
    outputs_ = [np.zeros((0, 3)), np.ones(2)]
    expected = Reference(outputs_, ["float32", "float32"], [0.0, 0.0], None)
    assert verify.check(outputs_, ["float32", "float32"], expected).reason is None


def test_outputs_survive_the_way_to_another_process(tmp_path):
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([True, False])]
    outputs.save(tmp_path / "x.npz", arrays, ["float32", "bool"])
    found, dtypes = outputs.read(tmp_path / "x.npz")
    assert dtypes == ["float32", "bool"]
    for one, other in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
