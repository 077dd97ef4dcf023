"""What this machine can do at most: arithmetic a precision and reading a level of the memory, at 1 .. n threads.

Owns which roofs there are, when one is believed, and the share of a roof that a measured time reaches. The loops are
C's (`csrc/measure.c`). Knows no model, no backend and no record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.processors import count_processors
from suites.harness import machine

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


@dataclass(frozen=True)
class Roof:
    """One roof at one number of threads.

    Attributes:
        name: ``fp32``, ``bf16``, ``int8``; ``L1d``, ``L2``, ``L3`` ..., ``memory``.
        threads: that worked at once.
        rate: operations (two a multiply-add) or bytes a second, all threads together; None where the machine has no
            such instruction.
        unit: ``FLOP/s``, ``OP/s`` or ``B/s``.
        thread_bytes: what each thread read again and again; None for arithmetic.
        isa: instruction set of the loop.
        clock_hz: cycles a second of one processor, from a chain of dependent additions measured beside.
        per_cycle: `rate` a thread and cycle.
        instructions: vector instructions a thread and cycle.
        believed: whether it can be one, see `_judged`; None where there is nothing to believe.
    """

    name: str
    threads: int
    rate: float | None
    unit: str
    thread_bytes: int | None = None
    isa: str | None = None
    clock_hz: float | None = None
    per_cycle: float | None = None
    instructions: float | None = None
    believed: bool | None = None


@dataclass(frozen=True)
class Roofs:
    """All roofs, and how long they took to measure."""

    rows: tuple[Roof, ...]
    seconds: float

    def rate(self, name: str, threads: int) -> float | None:
        """The believed rate of one roof; None where it was not measured, is absent, or was disturbed."""
        return next((r.rate for r in self.rows if (r.name, r.threads) == (name, threads) and r.believed), None)

    def share(self, work: Work, threads: int, seconds: float) -> float | None:
        """Share of the roof that binds `work` done in `seconds`; None where that roof is not known.

        The least time is that of the arithmetic, or of reading the bytes where they do not fit the last cache. More
        than 1 means that operations or bytes are counted wrongly.
        """
        peak = self.rate(work.precision, threads)
        if work.flops is None or peak is None:
            return None
        least = work.flops / peak
        if work.nbytes is not None and work.nbytes > last_level_bytes() * work.steps:
            bandwidth = self.rate("memory", threads)
            if bandwidth is None:
                return None
            least = max(least, work.nbytes / bandwidth)
        return least / seconds

    def to_dict(self) -> dict[str, Any]:
        """As in a record."""
        return asdict(self)

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Roofs:
        """What `to_dict` gave, perhaps from a record."""
        return Roofs(tuple(Roof(**row) for row in found["rows"]), found["seconds"])


@dataclass(frozen=True)
class Work:
    """What a call has to do: operations, bytes moved, and the type that it computes in; None is unknown.

    `steps` says how many times in a row a call moves the same bytes: `nbytes` are those of all steps, and whether they
    fit a cache is a question about one.
    """

    flops: int | None
    nbytes: int | None
    precision: str = "fp32"
    steps: int = 1


@cache
def measure() -> Roofs:
    """Measure every roof of this machine, once a process; takes about `BUDGET_S`."""
    began = time.perf_counter()
    wanted = list(_wanted())
    seconds = min(ROW_S, BUDGET_S / 2 / len(wanted))
    found = _judged([_measured(*one, seconds) for one in wanted])
    # A neighbour may have been busy: again, and the best counts, since a roof is what an undisturbed machine can do.
    while (doubtful := [i for i, r in enumerate(found) if r.believed is False]) and _left(began):
        for index in doubtful:
            if _left(began):
                again = _measured(*wanted[index], seconds)
                found[index] = max(found[index], again, key=lambda one: one.rate or 0.0)
        found = _judged(found)
    return Roofs(tuple(found), time.perf_counter() - began)


@cache
def last_level_bytes() -> int:
    """Size of one instance of the last cache; 0 where the system does not tell."""
    return max((size for _name, size, _sharing in _levels()), default=0)


def thread_counts() -> list[int]:
    """1, 2, 4 ... and the number of processors that this process may use, its CPU quota included."""
    most = count_processors()
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _wanted() -> Iterator[tuple[str, int, int]]:
    """Name, threads, bytes a thread; a level comes after those above it, more threads after fewer."""
    levels = _levels()
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
    found = targets.get("cpu").measure_roof(name if name in COMPUTE else "read", threads, nbytes, seconds)
    if found is None:
        return Roof(name, threads, None, unit)
    cycles, size = threads * found.clock, nbytes or None
    per_cycle = found.rate / cycles
    return Roof(
        name, threads, found.rate, unit, size, found.isa, found.clock, per_cycle, per_cycle / found.per_instruction
    )


def _judged(rows: Sequence[Roof]) -> list[Roof]:
    """`rows` with `believed` set.

    Arithmetic and the first cache: a processor does a whole number of vector instructions a cycle, the same number at
    any number of threads. Further levels have no such number: they are no faster than the level before them, and more
    threads are no slower than one.
    """
    known = {(row.name, row.threads): row for row in rows}
    found, above = [], dict[int, float]()
    for row in rows:
        if row.rate is None or row.instructions is None:
            found.append(row)
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
        found.append(replace(row, believed=believed))
    return found


@cache
def _levels() -> tuple[tuple[str, int, int], ...]:
    """Caches for data, nearest first: name as in the facts, bytes of an instance, processors that share it."""
    sizes = {name: _bytes(text) for name, text in machine.facts()["caches"].items() if not name.endswith("i")}
    return tuple((name, size, _sharing(name)) for name, size in sorted(sizes.items()))


def _sharing(name: str) -> int:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
            shared = (index / "shared_cpu_list").read_text().strip()
        except OSError:
            continue
        if name.startswith(f"L{level}") and kind != "Instruction":
            return sum(_span(part) for part in shared.split(","))
    return 1


def _span(part: str) -> int:
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1


def _bytes(text: str) -> int:
    """``32K`` as the kernel writes it."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    return int(text[:-1]) * factor if factor else int(text)
