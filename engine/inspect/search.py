"""Searches for what makes something fail: pure functions over a predicate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

CERTAINTY = 0.99
"""With which a failure that is there is seen."""


def find_first(count: int, fails: Callable[[int], bool]) -> int:
    """A number from 1 to `count` that fails while the one before it does not: 0 does not fail, and `count` does."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high


def minimise(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items`, which fail, that fails and of which none can be left out.

    Halves are left out first, then smaller parts, then single items (Zeller and Hildebrandt, "Simplifying and isolating
    failure-inducing input", 2002). What is empty is not tried.
    """
    kept, parts = list(items), 2
    while len(kept) > 1:
        size = math.ceil(len(kept) / parts)
        cuts = [(start, start + size) for start in range(0, len(kept), size)]
        tries = [kept[start:stop] for start, stop in cuts] if parts == 2 else []
        tries += [kept[:start] + kept[stop:] for start, stop in cuts] if parts > 2 else []
        smaller = next((one for one in tries if fails(one)), None)
        if smaller is not None:
            kept, parts = smaller, 2 if parts == 2 else max(2, parts - 1)
        elif size == 1:
            break
        else:
            parts = min(len(kept), 2 * parts)
    return kept


def count_repeats(failed: int, of: int, most: int = 30) -> int:
    """How often something must run for one failure to be seen, where `failed` of `of` runs did fail."""
    if failed == of:
        return 1
    return min(most, math.ceil(math.log(1 - CERTAINTY) / math.log(1 - failed / of)))
