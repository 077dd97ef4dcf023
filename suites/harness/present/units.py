"""Numbers for people: times, sizes, counts and speeds as short text. None is unknown and is written as ``-``."""

from __future__ import annotations

from suites.harness.record.schema import Speed

UNKNOWN = "-"
MOST_FACTOR = 1000
"""An end of an interval beyond this factor, or below its inverse, is not written as a number."""
TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
"""Name and seconds of each unit, longest first."""


def seconds(value: float | None) -> str:
    """A time with three digits and the unit that fits, such as ``4.15 ms``."""
    if value is None:
        return UNKNOWN
    name, unit = time_unit(value)
    return f"{digits(value / unit)} {name}"


def time_unit(value: float) -> tuple[str, float]:
    """Name and seconds of the longest unit of which `value` seconds are at least one."""
    return next((entry for entry in TIME_UNITS if value >= entry[1]), TIME_UNITS[-1])


def digits(value: float) -> str:
    """A number with three digits, or all digits before the point: ``2.76``, ``39.0``, ``257``, ``1,120``."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.3g}" if value < 1 else f"{value:.2f}"


def size(value: float | None) -> str:
    """A number of bytes with a binary unit, such as ``1.91 MiB``."""
    if value is None:
        return UNKNOWN
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 1 << step:
            return f"{digits(value / (1 << step))} {unit}"
    return f"{value:.0f} B"


def count(value: float | None) -> str:
    """A whole number: ``1,234``; from a million on ``1.23 M``, ``1.23 G``."""
    if value is None:
        return UNKNOWN
    for unit, step in (("G", 1e9), ("M", 1e6)):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:,}"


def percent(value: float | None) -> str:
    """A share without decimals: ``94%``."""
    return UNKNOWN if value is None else f"{value:.0%}"


def error(value: float | None) -> str:
    """A relative or absolute error: ``9.2e-07``."""
    return UNKNOWN if value is None else f"{value:.1e}"


def factor(speed: Speed) -> str:
    """A speed with its 95% interval: ``1.08x [1.00, 1.17]``."""
    return f"{times(speed.value)} {interval(speed)}"


def interval(speed: Speed) -> str:
    """The 95% interval of a speed: ``[1.00, 1.17]``; ``>1000`` replaces an end if this limit lies inside of it."""
    least = 1 / MOST_FACTOR
    high = f">{MOST_FACTOR}" if speed.low <= MOST_FACTOR < speed.high else plain(speed.high)
    low = f"<{least:.3f}" if speed.low < least <= speed.high else plain(speed.low)
    return f"[{low}, {high}]"


def times(value: float) -> str:
    """How many times: ``1.08x``, from 10 on ``12.3x``, from 100 on ``123x``."""
    return f"{plain(value)}x"


def plain(value: float) -> str:
    """A factor without a sign: ``1.08``, ``12.3``, ``123``, and with one significant digit below 0.01: ``0.004``."""
    if 0 < value < 0.00995:
        return f"{value:.1g}" if value >= 0.0001 else "<0.0001"
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
