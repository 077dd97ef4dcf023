"""Offsets for buffers in one arena. Sees sizes and live ranges only; knows no ops, no kernels and no graph.

A strategy is a function from requests to offsets; adding one is one entry of `STRATEGIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.memory import ALIGNMENT
from engine.switches import Switch, register


class Request(NamedTuple):
    """One buffer: bytes, and the first and last step (inclusive) at which it is alive."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where each request lies.

    `offsets` are bytes from the start of the arena, in the order of the requests. `lower_bound` is the largest sum of
    simultaneously live bytes: no plan can be smaller.
    """

    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound: int


@dataclass(frozen=True)
class Strategy:
    """A named way to place buffers."""

    place: Callable[[Sequence[Request]], list[int]]
    summary: str


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lower_bound(requests: Sequence[Request]) -> int:
    """The largest sum of aligned sizes alive at one step."""
    changes: dict[int, int] = {}
    for r in requests:
        changes[r.first] = changes.get(r.first, 0) + aligned(r.nbytes)
        changes[r.last + 1] = changes.get(r.last + 1, 0) - aligned(r.nbytes)
    peak = live = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def _greedy(requests: Sequence[Request], order: Sequence[int], *, best_fit: bool) -> list[int]:
    """Place in `order`, each into a gap between the placed buffers alive at the same time."""
    offsets = [0] * len(requests)
    placed: list[int] = []
    for index in order:
        request = requests[index]
        size = aligned(request.nbytes)
        rivals = sorted(
            (offsets[p], offsets[p] + aligned(requests[p].nbytes))
            for p in placed
            if requests[p].first <= request.last and request.first <= requests[p].last
        )
        chosen, room, end = None, None, 0
        for start, stop in rivals:
            gap = start - end
            if gap >= size and (room is None or gap < room):
                chosen, room = end, gap
                if not best_fit:
                    break
            end = max(end, stop)
        offsets[index] = end if chosen is None else chosen
        placed.append(index)
    return offsets


def _by_size(requests: Sequence[Request]) -> list[int]:
    order = sorted(range(len(requests)), key=lambda i: (-requests[i].nbytes, requests[i].first))
    return _greedy(requests, order, best_fit=True)


def _in_order(requests: Sequence[Request]) -> list[int]:
    order = sorted(range(len(requests)), key=lambda i: requests[i].first)
    return _greedy(requests, order, best_fit=False)


def _no_reuse(requests: Sequence[Request]) -> list[int]:
    offsets, end = [], 0
    for request in requests:
        offsets.append(end)
        end += aligned(request.nbytes)
    return offsets


STRATEGIES: dict[str, Strategy] = {
    "default": Strategy(_by_size, "largest buffer first, into the tightest gap"),
    "in_order": Strategy(_in_order, "in order of first use, into the first gap"),
    "no_reuse": Strategy(_no_reuse, "each buffer has memory of its own"),
}


def plan(requests: Sequence[Request], strategy: str = "default") -> MemoryPlan:
    """Place `requests` by the strategy of that name."""
    offsets = STRATEGIES[strategy].place(requests)
    arena = max((o + aligned(r.nbytes) for o, r in zip(offsets, requests, strict=True)), default=0)
    return MemoryPlan(tuple(offsets), arena, lower_bound(requests))


for _name, _strategy in STRATEGIES.items():
    register(Switch("planner", _name, "on" if _name == "default" else "off", _strategy.summary))
