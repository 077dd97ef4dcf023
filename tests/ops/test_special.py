"""erf and erfc against the C library's, point by point."""

from __future__ import annotations

import math

import numpy as np

from engine.ops.special import erf, erfc

X = np.concatenate([np.linspace(-6, 6, 4001), np.linspace(-0.5, 0.5, 801), [1e-300, -1e-10, 0.46875, 4.0, -4.0]])


def test_erf_is_exact_to_a_few_units_in_the_last_place():
    np.testing.assert_allclose(erf(X), [math.erf(x) for x in X], rtol=1e-15, atol=0)


def test_erfc_is_exact_to_a_few_units_in_the_last_place_and_does_not_cancel():
    far = np.linspace(6, 26, 401)
    np.testing.assert_allclose(erfc(X), [math.erfc(x) for x in X], rtol=2e-15, atol=0)
    np.testing.assert_allclose(erfc(far), [math.erfc(x) for x in far], rtol=2e-15, atol=0)


def test_the_ends_and_nan():
    ends = np.array([np.inf, -np.inf, 1e300, -1e300, np.nan, 0.0, -0.0])
    np.testing.assert_array_equal(erf(ends), [1, -1, 1, -1, np.nan, 0, -0.0])
    np.testing.assert_array_equal(erfc(ends), [0, 2, 0, 2, np.nan, 1, 1])
    assert np.signbit(erf(np.array(-0.0)))
