"""Roofs as they are recorded: what a machine can do at most, and the share of it that a measured time reaches.

`suites.harness.measure.roofs` measures them. Knows no model and no backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as described

from suites.harness.record import machine
from suites.harness.record.system import read


@described(frozen=True, config=ConfigDict(use_attribute_docstrings=True))
class Roof:
    """One roof at one number of threads."""

    name: str
    """``fp32``, ``bf16``, ``int8``; ``L1d``, ``L2``, ``L3`` ..., ``memory``."""
    threads: int
    """number of threads that ran at the same time."""
    rate: float | None
    """operations (two a multiply-add) or bytes a second, all threads together; null if the machine has no such
    instruction."""
    unit: str
    """``FLOP/s``, ``OP/s`` or ``B/s``."""
    thread_bytes: int | None = None
    """bytes that each thread reads repeatedly; null for arithmetic."""
    isa: str | None = None
    """instruction set of the loop."""
    clock_hz: float | None = None
    """clock frequency of one processor, measured with a chain of dependent additions."""
    per_cycle: float | None = None
    """`rate` a thread and cycle."""
    instructions: float | None = None
    """vector instructions a thread and cycle."""
    believed: bool | None = None
    """true if the rate is plausible (see measurement.md); null if the machine lacks the instruction."""


@dataclass(frozen=True)
class Roofs:
    """All roofs, and how long they took to measure."""

    rows: tuple[Roof, ...]
    seconds: float

    def rate(self, name: str, threads: int) -> float | None:
        """The believed rate of one roof; None where it was not measured, is absent, or was disturbed."""
        return next((r.rate for r in self.rows if (r.name, r.threads) == (name, threads) and r.believed), None)

    def share(self, work: Work, threads: int, seconds: float, cache_bytes: int | None = None) -> float | None:
        """Share of the roof that binds `work` done in `seconds`; None where that roof is not known.

        The least time is that of the arithmetic, or of reading the bytes where they do not fit the last cache. More
        than 1 means that operations or bytes are counted wrongly. The last cache has `cache_bytes`; None: it is the
        one of the processors.
        """
        peak = self.rate(work.precision, threads)
        if work.flops is None or peak is None:
            return None
        least = work.flops / peak
        cached = last_level_bytes() if cache_bytes is None else cache_bytes
        if work.nbytes is not None and work.nbytes > cached * work.steps:
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
def last_level_bytes() -> int:
    """Size of one instance of the last cache; 0 where the system does not tell."""
    return max((size for _name, size, _sharing in cache_levels()), default=0)


@cache
def cache_levels() -> tuple[tuple[str, int, int], ...]:
    """Caches for data, nearest first: name as in the facts, bytes of an instance, processors that share it."""
    sizes = {name: _bytes(text) for name, text in machine.facts()["caches"].items() if not name.endswith("i")}
    return tuple((name, size, _sharing(name)) for name, size in sorted(sizes.items()))


def _sharing(name: str) -> int:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind, shared = (read(str(index / file)) for file in ("level", "type", "shared_cpu_list"))
        if level and shared and name.startswith(f"L{level}") and kind != "Instruction":
            spans = (part.partition("-") for part in shared.split(","))
            return sum(int(last or first) - int(first) + 1 for first, _, last in spans)
    return 1


def _bytes(text: str) -> int:
    """``32K`` as the kernel writes it."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    return int(text[:-1]) * factor if factor else int(text)
