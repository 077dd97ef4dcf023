"""What this machine can do at most: arithmetic a precision and reading a level of the memory, at 1 .. n threads.

Owns which roofs there are and when one is believed. The loops are C's (`csrc/measure.c`). Knows no model and no
backend.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from engine.processors import count_processors
from suites.harness.record import machine
from suites.harness.record.roofs import Roof, Roofs, cache_levels

BUDGET_S = 1.5
"""Seconds that all roofs together may take, about; half of it is spent before anything is measured again."""
ROW_S = 0.03
"""Seconds of one roof, where there are few enough of them."""
AGREES_WITHIN = 0.05
"""A roof agrees with the clock when its instructions a cycle are this close to a whole number."""
LOADS_WITHIN = 0.15
"""The same of loads from the first cache, which conflict now and then: 0.92 to 0.94 a cycle were seen on Zen 4."""
MEMORY_TIMES = 8
"""Memory is read over this many times the last cache, so that less than an eighth of it is found there. One thread of a
Zen 5 read 45 to 51 GB/s over three times that, 44 to 46 over six, 40 to 45 over eight, 41 over sixteen.
"""
COMPUTE = ("fp32", "bf16", "int8")


@cache
def measure() -> Roofs:
    """Measure every roof of this machine, once a process; takes about `BUDGET_S`."""
    began = time.perf_counter()
    wanted = list(_wanted())
    seconds = min(ROW_S, BUDGET_S / 2 / len(wanted))
    roofs = _judged([_measured(*row, seconds) for row in wanted])
    # A neighbour may have been busy: again, and the best counts, since a roof is what an undisturbed machine can do.
    while (doubtful := [i for i, r in enumerate(roofs) if r.believed is False]) and _left(began):
        for index in doubtful:
            if _left(began):
                again = _measured(*wanted[index], seconds)
                roofs[index] = max(roofs[index], again, key=lambda roof: roof.rate or 0.0)
        roofs = _judged(roofs)
    return Roofs(tuple(roofs), time.perf_counter() - began)


def thread_counts() -> list[int]:
    """1, 2, 4 ... and the number of processors that this process may use, its CPU quota included."""
    most = count_processors()
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _wanted() -> Iterator[tuple[str, int, int]]:
    """Name, threads, bytes a thread; a level comes after those above it, more threads after fewer."""
    levels = cache_levels()
    for name in COMPUTE:
        yield from ((name, threads, 0) for threads in thread_counts())
    for name, size, sharing in levels:
        yield from ((name, threads, size // 2 // min(threads, sharing)) for threads in thread_counts())
    size, sharing = max(((size, sharing) for _name, size, sharing in levels), default=(16 << 20, 1))
    total = min(MEMORY_TIMES * size, machine.facts()["memory_bytes"] // 8)
    yield from (("memory", threads, total // min(threads, sharing)) for threads in thread_counts())


def _left(began: float) -> bool:
    return time.perf_counter() - began < BUDGET_S


def _measured(name: str, threads: int, nbytes: int, seconds: float) -> Roof:
    from engine import targets

    unit = "B/s" if name not in COMPUTE else "OP/s" if name == "int8" else "FLOP/s"
    measured = targets.get("cpu").instruments.measure_roof(
        name if name in COMPUTE else "read", threads, nbytes, seconds
    )
    if measured is None:
        return Roof(name, threads, None, unit)
    cycles, size = threads * measured.clock, nbytes or None
    per_cycle = measured.rate / cycles
    return Roof(
        name,
        threads,
        measured.rate,
        unit,
        size,
        measured.isa,
        measured.clock,
        per_cycle,
        per_cycle / measured.per_instruction,
    )


def _judged(rows: Sequence[Roof]) -> list[Roof]:
    """`rows` with `believed` set.

    Arithmetic and the first cache: a processor does a whole number of vector instructions a cycle, the same number at
    any number of threads. Further levels have no such number: they are no faster than the level before them, and more
    threads are no slower than one.
    """
    known = {(row.name, row.threads): row for row in rows}
    judged, above = [], dict[int, float]()
    for row in rows:
        if row.rate is None or row.instructions is None:
            judged.append(row)
            continue
        single = known[row.name, 1]
        if row.unit != "B/s" or row.threads not in above:
            whole = max(1, round(single.instructions or 0))
            believed = abs(row.instructions / whole - 1) <= (AGREES_WITHIN if row.name in COMPUTE else LOADS_WITHIN)
        else:
            slack = 1 + AGREES_WITHIN
            believed = row.rate <= slack * above[row.threads] and slack * row.rate >= (single.rate or 0)
        if row.unit == "B/s":
            above[row.threads] = row.rate
        judged.append(replace(row, believed=believed))
    return judged
