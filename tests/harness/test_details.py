"""What `show --details` says of one case."""

from __future__ import annotations

import io

from rich.console import Console

from suites.harness.judge import judged_case
from suites.harness.present import details
from suites.harness.present.report import print_report
from tests.harness import records
from tests.harness.test_overview import case, row


def print_parts(written, rows):
    parts = details.describe_details(judged_case.judge_cases(rows)[0], records.environment())
    print_report(Console(file=written, width=150), parts)


def test_details_say_where_the_times_of_preparing_are():
    text = "import, export and compile are measured in the first case"
    written = io.StringIO()
    print_parts(written, case())
    assert text in written.getvalue()
    rows = [one.model_copy(update={"export_s": 1.0}) for one in case()]
    written = io.StringIO()
    print_parts(written, rows)
    assert text not in written.getvalue()


def test_details_say_the_work_of_the_engine_without_options_whichever_row_is_first():
    other = row("engine[disable=fuse_gelu]", 1e-4, case="mlp/b1/t1/fp32", flops=50, bytes=900)
    written = io.StringIO()
    rows = [other, *case(engine_fields={"flops": 40, "bytes": 700})]
    print_parts(written, rows)
    assert "work of a call: 40 operations on 700 B" in written.getvalue()
