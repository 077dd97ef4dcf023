"""Cuts calls of two kinds (run by the engine, run by torch) into the smallest number of segments.

Only scheduling; knows neither graphs nor torch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Unit = TypeVar("Unit", bound=Hashable)


def segments(
    units: Sequence[Unit], before: Mapping[Unit, Iterable[Unit]], kind: Mapping[Unit, bool]
) -> list[list[Unit]]:
    """`units` in segments, each of one kind, to be run one after the other. No schedule has fewer segments.

    A segment takes every unit of its kind that can run by then. By induction, after n segments at least as many units
    have run as after n segments of any other schedule that begins with the same kind, so no such schedule is shorter.
    Both kinds are tried as the first.

    Args:
        units: in an order in which they could run; a segment keeps this order.
        before: for each unit the units that must run before it.
        kind: the kind of each unit.
    """
    if not units:
        return []
    return min(
        (_beginning(units, before, kind, first=first) for first in (kind[units[0]], not kind[units[0]])), key=len
    )


def _beginning(
    units: Sequence[Unit], before: Mapping[Unit, Iterable[Unit]], kind: Mapping[Unit, bool], *, first: bool
) -> list[list[Unit]]:
    found: list[list[Unit]] = []
    done: set[Unit] = set()
    rest, now = list(units), first
    while rest:
        segment: list[Unit] = []
        later: list[Unit] = []
        for unit in rest:  # in order, so the units that a unit needs come before it
            ready = kind[unit] is now and all(other in done for other in before[unit])
            (segment if ready else later).append(unit)
            if ready:
                done.add(unit)
        found += [segment] if segment else []
        rest, now = later, not now
    return found
