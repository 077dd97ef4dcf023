"""The engine against every other backend as an SVG picture, for light and for dark pages. Reads records only.

Needs matplotlib, which the extra `plots` brings.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.harness.errors import UsageError
from suites.harness.files import write_text_file
from suites.harness.judge import judged_case
from suites.harness.judge.judged_case import JudgedCase, Lead, get_column, get_latency
from suites.harness.present import names, overview, units
from suites.harness.record.schema import Environment, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vPX*"
"""Shapes of backends, so that colour is not needed to tell them apart."""


@dataclass(frozen=True)
class Theme:
    """Colours of a picture: text and rules, bars by verdict, dots."""

    text: str
    rule: str
    bars: Mapping[str, str]
    dots: str


LIGHT = Theme("#1f2328", "#d0d7de", {"faster": "#1a7f6b", "slower": "#b3431f"}, "#57606a")
DARK = Theme("#e6edf3", "#30363d", {"faster": "#3fb8a0", "slower": "#e08a5b"}, "#9da7b1")
TITLE = "Speed of the engine against each backend: above 1x it is faster. Bar: the fastest other, with its 95% interval"
NEUTRAL = "#8c959f"
"""Bars of verdicts that are not beyond noise."""


def draw(path: Path, summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> None:
    """Write the picture for light pages to `path`, and for dark pages beside it with ``-dark`` before the ending.

    Raises:
        UsageError: no case has a lead, or the file cannot be written.
    """
    judged = [one for one in judged_case.judge_cases(summaries) if one.lead is not None]
    if not judged:
        raise UsageError("nothing to draw: no case has a time of the engine and of another backend")
    short = names.shorten_names(summaries)
    caption = overview.describe_heading(summaries, judged, environment, started)
    for target, theme in ((path, LIGHT), (path.with_stem(f"{path.stem}-dark"), DARK)):
        write_text_file(target, _render(judged, short, caption, theme))


def _render(judged: Sequence[JudgedCase], short: Mapping[str, str], caption: str, theme: Theme) -> str:
    """The SVG text; the same records give the same text."""
    import matplotlib as mpl

    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "enginebench",
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": theme.text,
        "axes.labelcolor": theme.text,
        "xtick.color": theme.text,
        "ytick.color": theme.text,
    }
    with mpl.rc_context(settings):  # type: ignore[arg-type]  # the stub wants literal keys
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.4, 1.5 + 0.36 * len(judged)), layout="constrained")
        axes = figure.add_subplot()
        _draw_cases(axes, judged, theme)
        axes.set_yticks(range(len(judged)), [short[one.case] for one in judged])
        axes.invert_yaxis()
        axes.set_title(" ", fontsize=10, pad=14)  # room for the legend of the shapes
        figure.suptitle(TITLE, x=0.01, ha="left", fontsize=10)
        figure.supxlabel(caption, fontsize=8, color=theme.text)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": "enginebench"})
    return stream.getvalue()


def _draw_cases(axes: Axes, judged: Sequence[JudgedCase], theme: Theme) -> None:
    """A bar a case for the fastest other backend with its interval, a dot for each other one."""
    shapes: dict[str, str] = {}
    highest = 1.0
    for place, one in enumerate(judged):
        if one.lead is None or one.engine is None:
            continue
        _draw_lead(axes, place, one.lead, theme)
        for column, row in one.best_forms().items():
            if row.role != "peer" or not row.latency:
                continue
            shape = shapes.setdefault(column, _MARKERS[len(shapes) % len(_MARKERS)])
            value = get_latency(row) / get_latency(one.engine)
            highest = max(highest, value, one.lead.speed.high)
            if get_column(row) != one.lead.other.partition("[")[0]:
                axes.plot(value, place, shape, color=theme.dots, markersize=5, markerfacecolor="none")
            else:
                axes.plot(value, place, shape, color=theme.text, markersize=5)
    for column, shape in shapes.items():
        axes.plot([], [], shape, color=theme.dots, markersize=5, label=column)
    _style_axes(axes, judged, highest, theme)


def _draw_lead(axes: Axes, place: int, lead: Lead, theme: Theme) -> None:
    speed = lead.speed
    colour = theme.bars.get(lead.verdict, NEUTRAL)
    axes.barh(
        place, speed.value - 1, left=1, height=0.62, color=colour, alpha=0.85 if lead.verdict in theme.bars else 0.5
    )
    axes.plot([speed.low, speed.high], [place, place], color=theme.text, linewidth=1.4)
    for end in (speed.low, speed.high):
        axes.plot([end, end], [place - 0.14, place + 0.14], color=theme.text, linewidth=1.4)


def _style_axes(axes: Axes, judged: Sequence[JudgedCase], highest: float, theme: Theme) -> None:
    lowest = min(one.lead.speed.low for one in judged if one.lead is not None)
    axes.set_xscale("log")
    right = highest * (highest / lowest) ** 0.2  # room for the labels
    axes.set_xlim(min(0.9, lowest / 1.05), right)
    ticks = [
        tick for tick in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 50, 100) if min(0.9, lowest) <= tick <= highest
    ]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color=theme.text, linewidth=1)
    axes.grid(axis="x", color=theme.rule, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    for place, one in enumerate(judged):
        if one.lead is not None:
            text = f"{units.times(one.lead.speed.value)} {one.lead.verdict}"
            colour = theme.bars.get(one.lead.verdict, NEUTRAL)
            axes.text(right, place, text, va="center", ha="right", color=colour, fontsize=9)
    handles = axes.get_legend_handles_labels()[0]
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False, fontsize=8.5,
        handletextpad=0.2, columnspacing=1.2, borderaxespad=0,
    )  # fmt: skip
