"""What texts on a terminal share: paragraphs, bars and intervals; in ASCII where other characters cannot be written."""

from __future__ import annotations

import math

from rich.console import Console
from rich.text import Text

from suites.harness.record.reasons import remove_escapes
from suites.harness.record.schema import Speed

_FARTHEST = 16.0
"""Longest axis of factors: an interval beyond it is cut."""
_EIGHTHS = ("", *"\u258f\u258e\u258d\u258c\u258b\u258a\u2589")
ASCII = str.maketrans("\u2588\u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2502\u2500\u25cf\u253c", "########|-o+")
"""Characters of bars, intervals and rules in ASCII."""
VERDICT_STYLES = {"faster": "green", "slower": "red", "unclear": "dim", "not reached": "dim"}


def is_ascii(console: Console) -> bool:
    """True if the output cannot show other characters than ASCII."""
    return console.options.ascii_only


def write_paragraph(console: Console, text: str | Text, *, indent: int = 0, style: str = "") -> None:
    """Print text as it is, wrapped between words, without blanks at the ends of its lines.

    Texts of records may have escape sequences of terminals, which are left out.
    """
    made = Text(remove_escapes(text), style) if isinstance(text, str) else text
    for line in made.wrap(console, max(console.width - indent, 1), overflow="fold"):
        indented = Text(" " * indent) + line
        indented.rstrip()
        console.print(indented, soft_wrap=True, highlight=False)


def draw_bar(share: float, width: int) -> str:
    """A bar of blocks for a share of 1, which is `width` characters: to an eighth of a character."""
    eighths = max(1, round(max(0.0, min(1.0, share)) * width * 8))
    return "\u2588" * (eighths // 8) + _EIGHTHS[eighths % 8]


def draw_interval(speed: Speed, reach: float, width: int) -> str:
    """A factor and its 95% interval on a logarithmic axis with 1 in the middle: ``      |  --o--   ``.

    Args:
        speed: the factor.
        reach: the axis goes from 1 / reach to reach; what lies outside is drawn at its end as an arrow.
        width: characters, odd.
    """
    half = width // 2
    low, value, high = (half + math.log(x) / math.log(reach) * half for x in (speed.low, speed.value, speed.high))
    cells = [" "] * width
    cells[half] = "\u2502"
    for place in range(max(0, round(low)), min(width - 1, round(high)) + 1):
        cells[place] = "\u2500"
    if low <= half <= high:
        cells[half] = "\u253c"
    if round(low) < 0:
        cells[0] = "<"
    if round(high) > width - 1:
        cells[-1] = ">"
    cells[min(max(round(value), 0), width - 1)] = "\u25cf"
    return "".join(cells)


def choose_reach(speeds: list[Speed], *, least: float = 1.1) -> float:
    """The end of an axis of factors that shows these intervals, between `least` and `_FARTHEST`."""
    ends = [max(one.high, 1 / one.low) for one in speeds] or [least]
    return min(_FARTHEST, max(least, *ends)) ** 1.02
