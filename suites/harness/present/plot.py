"""The engine's lead in every case as intervals on one axis. Reads records only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from suites.harness.judge import judged_case
from suites.harness.present import names, overview, units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Cell, Column, Table
from suites.harness.present.terminal import VERDICT_STYLES, choose_reach, draw_interval
from suites.harness.record.schema import Environment, Summary

WIDTH = 31
"""Characters of the axis: odd, so that 1 has a place in the middle."""


def describe_leads(summaries: Sequence[Summary], environment: Environment, started: datetime | None) -> list[Part]:
    """A line a case: the engine against the fastest other backend, with its 95% interval around 1."""
    judged = judged_case.judge_cases(summaries)
    short = names.shorten_names(summaries)
    heading = Paragraph(overview.describe_heading(summaries, judged, environment, started))
    leads = [(one, one.lead) for one in judged if one.lead is not None]
    if not leads:
        return [heading, Paragraph("No case has a time of the engine and of another backend.")]
    reach = choose_reach([lead.speed for _, lead in leads], least=1.25)
    table = Table([Column("case"), Column(overview.BEST_OTHER), Column(), Column("interval", is_drawing=True)])
    for one, lead in leads:
        style = VERDICT_STYLES.get(lead.verdict, "")
        drawn = Cell(draw_interval(lead.speed, reach, WIDTH), style)
        other = lead.other.partition("[")[0]
        table.add(short[one.case], f"{units.times(lead.speed.value)} {other}", Cell(lead.verdict, style), drawn)
    ends = f"the axis goes from {units.times(1 / reach)} to {units.times(reach)}, logarithmic, 1 in the middle"
    text = "Time of the fastest other backend over the engine's, with its 95% interval: right of 1 the engine is faster"
    return [
        heading,
        table,
        Paragraph(str(judged_case.count_firsts(judged)), "bold"),
        Paragraph(f"{text}; {ends}.", "dim"),
    ]
