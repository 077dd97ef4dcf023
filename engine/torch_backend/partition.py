"""Cuts calls of two kinds, the engine's and torch's, into the fewest segments. Knows neither graphs nor torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Unit = TypeVar("Unit", bound=Hashable)


def segments(
    units: Sequence[Unit], before: Mapping[Unit, Iterable[Unit]], kind: Mapping[Unit, bool]
) -> list[list[Unit]]:
    """`units` in segments, each of one kind, to be run one after the other. No schedule has fewer segments.

    A segment takes every unit of its kind that can run by then. By induction, after n segments at least as many units
    have run as after n segments of any other schedule that begins with the same kind. Both kinds are tried as the
    first. `units` are in an order in which they could run, which segments keep; `before` has what must run before each.
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
