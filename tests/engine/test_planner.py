"""Offsets: nothing alive overlaps, the bound is a bound, strategies do what they say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import planner
from engine.errors import VerificationError
from engine.planner import Request, verify
from tests import messages

requests = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 20), st.integers(0, 8)).map(
        lambda t: Request(t[0], t[1], t[1] + t[2])
    ),
    max_size=30,
)


@settings(max_examples=100)
@given(requests)
@pytest.mark.parametrize("strategy", list(planner.STRATEGIES))
def test_every_plan_verifies_and_is_at_least_the_bound(strategy, wanted):
    plan = planner.plan(wanted, strategy)
    verify.plan(wanted, plan)
    assert plan.arena_bytes >= plan.lower_bound


def test_the_bound_is_the_largest_live_sum():
    wanted = [Request(64, 0, 1), Request(128, 1, 2), Request(64, 2, 3)]
    assert planner.lower_bound(wanted) == 192


def test_buffers_that_never_meet_share_memory():
    wanted = [Request(1000, i, i) for i in range(10)]
    assert planner.plan(wanted).arena_bytes == planner.aligned(1000)
    assert planner.plan(wanted, "no_reuse").arena_bytes == 10 * planner.aligned(1000)


def test_the_verifier_sees_an_overlap():
    wanted = [Request(64, 0, 1), Request(64, 1, 2)]
    broken = planner.MemoryPlan((0, 0), 64, 128)
    with messages.raises(VerificationError):
        verify.plan(wanted, broken)


def test_the_verifier_sees_a_buffer_outside_of_the_arena():
    with messages.raises(VerificationError):
        verify.plan([Request(65, 0, 1)], planner.MemoryPlan((0,), 64, 64))
