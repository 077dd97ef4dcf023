"""Which numbers and texts a line of a record may have. Knows what a line holds, not where it is stored.

Python reads more than JSON has: NaN, integers of any length, and halves of characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from suites.harness.record.launches import KernelRecord
from suites.harness.record.schema import AblationRecord, Ratio, Record, Samples, Summary

_MANY_DIGITS = re.compile(rb"\d{19}")
_LARGEST = 2**63 - 1
"""Largest signed integer of 64 bits."""
_NAMED = ("inf", "-inf", "nan")
"""Numbers that JSON lacks, which a line has as text."""
_SCALARS = {int, float}
_LARGEST_TIME = 1e12
"""Seconds, and the ratio of two times: no process lives for 30,000 years."""


def parse_line(text: bytes) -> Any:
    """What a line of JSON spells.

    Raises:
        ValueError: it is no JSON, has an integer of more than 64 bits, or a text that is not Unicode.
    """
    if _MANY_DIGITS.search(text):
        line = json.loads(text, parse_constant=_refuse, parse_int=_parse_int)
    else:
        line = json.loads(text, parse_constant=_refuse)
    if rb"\u" in text:
        try:
            json.dumps(line, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text has half of a surrogate pair, which is no character") from None
    return line


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _parse_int(digits: str) -> int:
    number = int(digits)
    if abs(number) > _LARGEST:
        raise ValueError(f"expected an integer of at most 64 bits, got one of {len(digits)} digits")
    return number


def check_times(record: Record) -> None:
    """ValueError if a time, or a ratio of times, is not a positive number below 1e12: nothing can be said of it."""
    for name, value in _list_times(record):
        if not 0 < value < _LARGEST_TIME:
            raise ValueError(f"{name}: expected a positive number below 1e12, got {value}")


def refuse_texts(line: Mapping[str, Any], record: Record) -> None:
    """ValueError if `line`, which `record` was read from, has a text for a number that JSON has, such as "12"."""
    for name, given in line.items():
        _refuse_text(name, given, getattr(record, name, None))


def _refuse_text(place: str, given: Any, read: Any) -> None:
    if isinstance(given, str):
        if isinstance(read, int | float) and given not in _NAMED:
            raise ValueError(f"{place}: expected a number, got {given!r}")
    elif isinstance(given, dict):
        for name, value in given.items():
            one = read.get(name) if isinstance(read, dict) else getattr(read, name, None)
            _refuse_text(f"{place}.{name}", value, one)
    elif isinstance(given, list) and isinstance(read, list | tuple) and not _SCALARS.issuperset(map(type, given)):
        for value, one in zip(given, read, strict=False):
            _refuse_text(place, value, one)


def _list_times(record: Record) -> Iterator[tuple[str, float]]:
    if isinstance(record, Samples):
        for name, turns in (("seconds", record.seconds), ("alone", record.alone), ("beside", record.beside)):
            for turn in turns:
                for value in turn:
                    yield name, value
    elif isinstance(record, Summary):
        latency = record.latency
        if latency is not None:
            for name in ("p50", "p90", "p99", "min"):
                yield f"latency.{name}", getattr(latency, name)
        if record.floor is not None:
            yield "1 + floor", 1 + record.floor
        compared = [record.best_peer, record.runner_up, *(record.versions or ())]
        yield from _list_ratios([record.ratio, *(one.ratio for one in compared if one is not None)])
        for name in ("prefill", "decode"):
            seconds = getattr(record.s_per_token, name, None)
            if seconds is not None:
                yield f"s_per_token.{name}", seconds
    elif isinstance(record, AblationRecord):
        yield from _list_ratios([record.ratio])
    elif isinstance(record, KernelRecord):
        yield "seconds", record.seconds


def _list_ratios(ratios: Iterable[Ratio | None]) -> Iterator[tuple[str, float]]:
    for ratio in ratios:
        if ratio is not None:
            yield from (("ratio", ratio.value), ("ratio.low", ratio.low), ("ratio.high", ratio.high))
