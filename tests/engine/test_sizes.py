"""Formulas over sizes: arithmetic against Python's, what ranges decide, guards, files."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import sizes, terms
from engine.errors import ShapeError, UndecidedSizeError
from engine.program import formulas
from tests import messages


def scope(**symbols):
    found = sizes.Scope()
    found.symbols |= {name: sizes.Symbol(*numbers) for name, numbers in symbols.items()}
    return found


def size(found, name):
    return found.size(terms.symbol(name))


@st.composite
def draw_arithmetic(draw):
    """The same arithmetic on anything: operations applied one after the other to a stack of operands."""
    steps = draw(st.lists(st.tuples(st.sampled_from("+-*/%"), st.integers(1, 12) | st.sampled_from("st")), max_size=6))

    def run(s, t):
        value = s
        for operation, operand in steps:
            other = {"s": s, "t": t}.get(operand, operand)
            match operation:
                case "+":
                    value = value + other
                case "-":
                    value = other - value
                case "*":
                    value = value * other
                case "/":
                    value = value // other
                case "%":
                    value = value % other
        return value

    return run


@given(draw_arithmetic(), st.integers(2, 40), st.integers(2, 40))
def test_a_formula_is_what_python_computes_at_every_size(run, s, t):
    found = scope(s=(2, 40, 7), t=(2, 40, 5))
    value = run(size(found, "s"), size(found, "t"))
    assert sizes.at(value, {"s": s, "t": t}) == run(s, t)
    assert not found.guards
    assert eval(repr(value), {"s": s, "t": t}) == run(s, t)  # the text is in Python's notation
    data = json.loads(json.dumps(formulas.encode(value)))
    assert sizes.at(formulas.decode(data, found), {"s": s, "t": t}) == run(s, t)


def test_equal_formulas_are_equal_without_a_guard():
    found = scope(s=(2, 100, 7), t=(2, 100, 7))
    s, t = size(found, "s"), size(found, "t")
    assert s * 4 + t == t + 2 * s + 2 * s
    assert (s * t * 4) // t == 4 * s
    assert (s * 12) % 4 == 0
    assert math.prod((s, 3, t)) == 3 * t * s
    assert not found.guards


def test_quotients_that_differ_by_whole_numbers_are_equal_without_a_guard():
    """What pooling computes its sizes with: they are equal at every size of s and t, so no size is excluded."""
    found = scope(s=(2, 100, 7), t=(2, 100, 7))
    s, t = size(found, "s"), size(found, "t")
    for a, b in (
        ((s - 2) // 2, s // 2 - 1),
        (-((-s) // 3), (s + 2) // 3),
        (1 - ((2 - s) // 2), ((s - 1) // 2) + 1),
        ((5 * s + 7 * t) // 2, 2 * s + 3 * t + (s + t) // 2),
        ((s - 2 * t) // t, s // t - 2),
        ((3 - 2 * s) % 2, 1),
        ((s + 4) % 4, s % 4),
        ((s * t) % t, 0),
        ((s // 2 + 3) // 4, (((s // 2 + 1) // 2) + 1) // 2),
        ((4 - s % 4) % 4, (3 * (s % 4)) % 4),
        (3 * ((s - 2) // 2) * ((t - 2) // 2), 3 * (s // 2) * (t // 2) - 3 * (s // 2) - 3 * (t // 2) + 3),
    ):
        assert sizes.same(a, b), (a, b)
        assert a == b
    assert not found.guards
    assert not sizes.same((s + 1) // 2, s // 2)


@given(
    *[st.lists(st.integers(-9, 9), min_size=3, max_size=3)] * 2,
    st.integers(1, 6),
    st.integers(2, 40),
    st.integers(2, 40),
)
def test_a_quotient_of_a_sum_is_what_python_computes(first, second, divisor, s, t):
    found = scope(s=(2, 40, 7), t=(2, 40, 5))

    def total(factors, s, t):
        return factors[0] * s + factors[1] * t + factors[2]

    dividends = [total(factors, size(found, "s"), size(found, "t")) for factors in (first, second)]
    numbers = [total(factors, s, t) for factors in (first, second)]
    for by, number in ((divisor, divisor), (divisor * size(found, "t"), divisor * t)):
        for dividend, value in zip(dividends, numbers, strict=True):
            assert sizes.at(dividend // by, {"s": s, "t": t}) == value // number
            assert sizes.at(dividend % by, {"s": s, "t": t}) == value % number


def test_bounds_of_quotients_hold_where_a_part_of_the_dividend_is_negative():
    found = scope(s=(2, 40, 7), t=(2, 40, 5))
    s, t = size(found, "s"), size(found, "t")
    for value in ((4 - s % 4) % 4, (s * t - 1) // t, (3 * s - t) // 2, (t - s) // 3, (s - t) % t, (t - s) // t):
        low, high = found.bounds(value.terms)
        numbers = [sizes.at(value, {"s": a, "t": b}) for a in range(2, 41) for b in range(2, 41)]
        assert low <= min(numbers) <= max(numbers) <= high < 10_000, value
    assert (4 - s % 4) % 4 < 4
    assert s % (s * t) != 0  # it is s
    assert not found.guards


def test_ranges_decide_without_a_guard():
    found = scope(s=(2, 100, 7))
    s = size(found, "s")
    assert s != 1
    assert s > 0
    assert s >= 2
    assert s < 101
    assert s + 1 > s
    assert 200 - s > 0
    assert s // 2 <= 50
    assert bool(s)
    assert not found.guards


def test_large_products_are_exact():
    found = scope(a=(1 << 40, 1 << 40, 1 << 40), z=(1 << 40, 1 << 40, 1 << 40), n=(0, 1 << 20, 0))
    a, z, n = (size(found, name) for name in "azn")
    with found.deciding():
        assert a * a + n - z * z == 0
    assert [str(guard) for guard in found.guards], "in floats 2**80 + n is 2**80: known to be equal, and no guard"


def test_what_a_range_leaves_open_is_answered_for_the_example_and_guarded():
    found = scope(s=(2, 100, 7))
    s = size(found, "s")
    with found.deciding():
        assert s != 64
        assert s < 10
    found.check({"s": 9})
    with messages.raises(ShapeError):
        found.check({"s": 64})
    with messages.raises(ShapeError):
        found.check({"s": 10})
    assert found.settled == {}


@pytest.mark.parametrize(
    "ask",
    [
        lambda s, t: s == t,
        lambda s, t: s != 64,
        lambda s, t: t + 1 < s,
        max,
        lambda s, t: (3, s) == (3, t),
        lambda s, t: s in (5, 7),
        lambda s, t: bool(t - 5),
        lambda s, t: range(s),
        lambda s, t: s * 0.5,
    ],
)
def test_outside_of_the_stages_that_may_guard_an_open_comparison_is_an_error_that_names_both_sizes(ask):
    found = scope(s=(2, 100, 7), t=(2, 100, 5))
    with messages.raises(UndecidedSizeError):
        ask(size(found, "s"), size(found, "t"))
    assert not found.guards


def test_deciding_ends_with_its_block_and_blocks_are_nested():
    found = scope(s=(2, 100, 7))
    with found.deciding():
        with pytest.raises(ZeroDivisionError), found.deciding():
            _ = 1 // 0
        assert found.is_deciding
    assert not found.is_deciding


def test_formulas_are_keys_of_a_dictionary_without_a_guard():
    found = scope(s=(2, 100, 7), t=(2, 100, 7))
    s, t = size(found, "s"), size(found, "t")
    assert {s + t: 1, s: 2}[t + s] == 1
    assert len({s, t, s * 1}) == 2
    assert not found.guards


@pytest.mark.parametrize("use", [range, float, int, lambda s: "abcdefghijk"[s], lambda s: s / 2, lambda s: s * 0.5])
def test_whoever_needs_the_number_settles_it(use):
    found = scope(s=(2, 100, 7))
    with found.deciding():
        use(size(found, "s"))
    assert found.settled == {"s": 7}
    with messages.raises(ShapeError):
        found.check({"s": 8})


def test_out_of_range_is_named():
    found = scope(batch=(1, 8, 2))
    with messages.raises(ShapeError):
        found.check({"batch": 9})


def test_text_is_for_people():
    found = scope(s=(2, 100, 7), t=(2, 100, 7))
    s, t = size(found, "s"), size(found, "t")
    assert repr(s * t - 2 * s + 1) == "s*t - 2*s + 1"
    assert repr((s + 3) // 4) == "((s + 3) // 4)"
    assert repr(2 * s // 3) == "(2*s // 3)"
    assert repr(s // (2 * t)) == "(s // (2*t))"
    assert repr(-s) == "- s"


@pytest.mark.parametrize(
    "data",
    [
        {"size": [[["u"], 1]]},
        {"size": [[["s"], 1.5]]},
        {"size": [[[["**", [], []]], 1]]},
        {"size": "s"},
        {"formula": []},
        {"size": [[["s"], True]]},
    ],
)
def test_a_damaged_formula_is_refused(data):
    with messages.raises(ValueError):
        formulas.decode(data, scope(s=(2, 9, 3)))


def test_sums_that_cancel_are_numbers():
    found = scope(s=(0, 100, 7))
    s = size(found, "s")
    assert type(s - s) is int
    assert type((s + 5) - s) is int
    with found.deciding():
        assert abs(s - 200) == 193


def test_a_condition_that_all_sizes_meet_is_no_guard():
    """The bounds of the two quotients do not decide it; trying sizes does."""
    for low, high in ((3, 16), (3, sizes.UNBOUNDED)):
        found = scope(s=(low, high, 4))
        s = size(found, "s")
        with found.deciding():
            assert -(-s // 2) == (s + 1) // 2
            assert s % 6 // 3 != s % 3 + 4
            assert (s // 4) * 4 + s % 4 - s < 1
            assert s - s // 2 >= (s + 1) // 2
            assert s * 3 // 2 < s * 2
        assert not found.guards
        found = scope(s=(low, high, 4))
        with found.deciding():
            assert size(found, "s") // 3 != 5
            assert size(found, "s") * 2 // 3 < 10
        assert [str(guard) for guard in found.guards] == ["(s // 3) - 5 != 0", "(2*s // 3) - 10 < 0"]


def test_a_condition_that_only_large_sizes_break_is_a_guard():
    """The sizes that break it are far larger than those that are tried."""
    found = scope(s=(2, sizes.UNBOUNDED, 4))
    s = size(found, "s")
    with found.deciding():
        assert s % 2 + s // 2 != 10**6
        assert s // 2 - s // 3 < 10**6
        assert s // 5000 != 9
    assert len(found.guards) == 3


@given(draw_arithmetic(), st.integers(0, 9), st.integers(0, 40), st.sampled_from(["==", "<"]))
def test_only_what_holds_for_all_sizes_is_left_unguarded(run, low, more, relation):
    found = scope(s=(low, low + more, low + more // 2))
    s = size(found, "s")
    try:
        with found.deciding():
            value = run(s, 3)
            before = len(found.guards)
            answer = value == 4 if relation == "==" else value < 4
    except (ShapeError, ZeroDivisionError):
        return
    if before or found.guards:
        return
    values = []
    for n in range(low, low + more + 1):
        with contextlib.suppress(ZeroDivisionError):  # the formula s // s is simplified to 1
            values.append(run(n, 3))
    assert {n == 4 if relation == "==" else n < 4 for n in values} <= {answer}
