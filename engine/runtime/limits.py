"""Sizes that a program allows: the ranges that a user gave, less what guards exclude. Knows no program."""

from __future__ import annotations

from collections.abc import Sequence

from engine.sizes import UNBOUNDED, Guard, Scope
from engine.terms import symbols_of


def describe_restrictions(scope: Scope) -> list[str]:
    """For each size with guards a text such as ``B from 2 to 8 (guard B - 1 != 0)``; [] without guards."""
    by_symbols: dict[tuple[str, ...], list[Guard]] = {}
    for guard in scope.guards:
        named = symbols_of(guard.terms)
        names = tuple(name for name in scope.symbols if name in named)
        by_symbols.setdefault(names, []).append(guard)
    return [_describe(scope, names, guards) for names, guards in by_symbols.items()]


def _describe(scope: Scope, names: Sequence[str], guards: Sequence[Guard]) -> str:
    ranges = _allowed(scope, names[0], guards) if len(names) == 1 else None
    if ranges is None:
        return f"{', '.join(names)} with {', '.join(map(str, guards))}"
    allowed = " and ".join(_write_range(low, high) for low, high in ranges)
    return f"{names[0]} {allowed} (guard{'s' if len(guards) > 1 else ''} {', '.join(map(str, guards))})"


def _write_range(low: int, high: int) -> str:
    if low == high:
        return f"= {low}"
    return f"from {low} on" if high >= UNBOUNDED else f"from {low} to {high}"


def _allowed(scope: Scope, name: str, guards: Sequence[Guard]) -> list[tuple[int, int]] | None:
    """The ranges of a symbol in which all guards hold; None if one is not linear. The guards have no other symbol."""
    symbol, edges = scope.symbols[name], set[int]()
    for guard in guards:
        sums = dict(guard.terms)
        slope = sums.pop((name,), 0)
        if not slope or set(sums) - {()}:
            return None
        root = -sums.get((), 0) // slope  # a linear guard changes its truth only at its root or next to it
        edges |= {root, root + 1, root + 2}
    starts = sorted({symbol.low, *(edge for edge in edges if symbol.low < edge <= symbol.high)})
    ranges: list[tuple[int, int]] = []
    for start, following in zip(starts, [*starts[1:], symbol.high + 1], strict=True):
        if all(guard.is_met({name: start}) for guard in guards):
            joined = ranges and ranges[-1][1] == start - 1
            ranges = [*ranges[:-1], (ranges[-1][0], following - 1)] if joined else [*ranges, (start, following - 1)]
    return ranges
