"""Which calls run together, where two executors share them: as few changes from one to the other as there can be.

Pure scheduling; knows neither graphs nor executors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Unit = TypeVar("Unit", bound=Hashable)


def segments(
    units: Sequence[Unit], before: Mapping[Unit, Iterable[Unit]], kind: Mapping[Unit, bool]
) -> list[list[Unit]]:
    """`units` in segments, each of one kind, to be run one after the other. No schedule has fewer.

    A segment takes every unit of its kind that can run by then, so that behind it at least as much is done as behind
    the same number of segments of any other schedule that begins with this kind: by induction, none is done earlier.
    Both kinds are tried as the first.

    Args:
        units: in an order in which they could run; kept within a segment.
        before: for each unit those that must have run.
        kind: of each unit.
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
        for unit in rest:  # in their order, so that what makes a unit ready comes before it
            ready = kind[unit] is now and all(other in done for other in before[unit])
            (segment if ready else later).append(unit)
            if ready:
                done.add(unit)
        found += [segment] if segment else []
        rest, now = later, not now
    return found
