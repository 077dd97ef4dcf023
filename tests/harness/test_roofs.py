"""Roofs: which are believed, what share of one a time is. Measured once, and no time is asserted."""

from __future__ import annotations

import json

import pytest

from suites.harness.measure import roofs
from suites.harness.record import roofs as recorded
from suites.harness.record.roofs import Roof, Roofs, Work

CLOCK = 4e9


def compute(threads: int, instructions: float, name: str = "fp32") -> Roof:
    per_cycle = 32 * instructions
    rate = per_cycle * CLOCK * threads
    return Roof(name, threads, rate, "FLOP/s", None, "avx512", CLOCK, per_cycle, instructions)


def reading(name: str, threads: int, rate: float) -> Roof:
    per_cycle = rate / threads / CLOCK
    return Roof(name, threads, rate, "B/s", 4096, "avx512", CLOCK, per_cycle, per_cycle / 64)


def believed(*rows: Roof) -> list[bool | None]:
    return [row.believed for row in roofs._judged(rows)]


def test_arithmetic_is_believed_where_it_is_a_whole_number_of_instructions_a_cycle():
    assert believed(compute(1, 0.97), compute(2, 0.96)) == [True, True]
    assert believed(compute(1, 1.97)) == [True]
    assert believed(compute(1, 0.9)) == [False], "a tenth of the time went elsewhere"
    assert believed(compute(1, 1.3)) == [False], "something was counted that was not done"
    assert believed(compute(1, 0.5)) == [False]


def test_two_threads_that_share_a_core_are_not_believed():
    assert believed(compute(1, 1.98), compute(2, 1.0)) == [True, False]


def test_reading_is_believed_where_it_is_no_faster_than_the_level_before():
    rows = reading("L1d", 1, 250e9), reading("L2", 1, 120e9), reading("memory", 1, 130e9)
    assert believed(*rows) == [True, True, False]


def test_reading_with_more_threads_is_no_slower():
    rows = [reading("L1d", n, 250e9 * n) for n in (1, 2)] + [reading("memory", 1, 30e9), reading("memory", 2, 20e9)]
    assert believed(*rows) == [True, True, True, False]


def test_an_instruction_that_the_machine_lacks_is_neither_believed_nor_not():
    assert believed(Roof("bf16", 1, None, "FLOP/s")) == [None]


@pytest.fixture
def known(monkeypatch) -> Roofs:
    monkeypatch.setattr(recorded, "last_level_bytes", lambda: 32 << 20)
    rows = compute(1, 1.0), reading("L1d", 1, 250e9), reading("memory", 1, 25e9), compute(2, 0.7)
    return Roofs(tuple(roofs._judged(rows)), 0.0)


def test_the_share_is_of_the_roof_that_binds(known):
    peak = 32 * CLOCK
    assert known.share(Work(int(peak), 0), 1, seconds=2.0) == pytest.approx(0.5)
    assert known.share(Work(10, 50 * 10**9), 1, seconds=4.0) == pytest.approx(0.5), "two seconds of reading"
    assert known.share(Work(int(peak), 1 << 20), 1, seconds=0.5) == pytest.approx(2.0), "a wrong count is not hidden"


def test_bytes_that_fit_the_last_cache_are_not_read_from_memory(known):
    work = Work(int(32 * CLOCK) // 1000, 20 << 20)
    assert known.share(work, 1, seconds=1e-3) == pytest.approx(1.0)


def test_no_share_is_claimed_of_what_is_unknown(known):
    assert known.share(Work(10, 10), 2, 1.0) is None, "a roof that is not believed"
    assert known.share(Work(10, 10), 4, 1.0) is None, "not measured"
    assert known.share(Work(10, 10, "bf16"), 1, 1.0) is None
    assert known.share(Work(None, 10), 1, 1.0) is None


def test_this_machine_has_roofs_that_survive_a_record():
    found = roofs.measure()
    assert Roofs.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    names = {row.name for row in found.rows}
    assert {"fp32", "bf16", "int8", "memory"} <= names
    assert {row.threads for row in found.rows} == set(roofs.thread_counts())
    for row in found.rows:
        assert (row.rate is None) == (row.believed is None)
        assert row.name not in ("fp32", "memory") or (row.rate or 0) > 0
        # What is believed is at most what the clock allows: a loop that was optimised away would be far beyond.
        assert row.instructions is None or row.instructions < 8


def test_sizes_are_read_as_the_kernel_writes_them():
    assert [recorded._bytes(text) for text in ("32K", "1M", "2G", "512")] == [32 << 10, 1 << 20, 2 << 30, 512]
