"""The pages of models: roofs, growth, and what is said of single times."""

from __future__ import annotations

import functools
import re
import statistics
from urllib.parse import urlencode

from suites.harness.judge.growth import Growth
from suites.harness.present import units
from suites.harness.record.schema import Samples
from suites.site.page import Site
from tests.harness import records
from tests.site.test_build import read_data

LINES = "(one => one.data.filter((trace) => trace.mode === 'lines').map((trace) => [trace.name, trace.line.dash]))"

ROOFLINE = "document.querySelector('#roofline .plot')"


def visit_case(visit, entry):
    page = visit(entry["page"], urlencode({"machine": entry["machine"], "case": entry["case"]}))
    page.wait_for_selector("#roofline .js-plotly-plot")
    return page


@functools.cache
def list_entries(folder):
    names = sorted(path.name for path in folder.glob("model-*.html"))
    return [entry for name in names for entry in read_data(folder / name)["entries"]]


def find_entry(folder, is_wanted):
    return next(
        entry for entry in list_entries(folder) if is_wanted(entry) and any(row["rate"] for row in entry["rows"])
    )


def test_only_the_roof_of_the_precision_is_drawn_and_a_doubtful_one_says_so(visit, folder):
    for machine, doubtful in (("intel-xeon-2c-953300", True), ("amd-epyc-2c-568263", False)):
        entry = find_entry(folder, lambda one, name=machine: (one["machine"], one["precision"]) == (name, "fp32"))
        page = visit_case(visit, entry)
        ((name, dash),) = page.evaluate(f"{LINES}(document.querySelector('#roofline .plot'))")
        assert "int8" not in name
        assert "fp32 arithmetic" in name
        assert ("doubtful" in name, dash) == ((True, "dash") if doubtful else (False, "solid"))
        assert ("roof of fp32 is doubtful" in page.inner_text("#roof-notes")) == doubtful
        for axis in page.evaluate(f"['xaxis', 'yaxis'].map((name) => {ROOFLINE}.layout[name])"):
            assert [float(text) for text in axis["ticktext"]] == axis["tickvals"]  # 20 is not written as "2"
            assert len(set(axis["tickvals"])) == len(axis["tickvals"])


def test_forms_of_the_engine_have_different_marks_and_short_names(visit, folder):
    entry = find_entry(folder, lambda one: len([row for row in one["rows"] if row["label"].startswith("engine[")]) > 1)
    page = visit_case(visit, entry)
    marks = page.evaluate(
        """() => document.querySelector('#roofline .plot').data.filter((one) => one.mode === 'markers')
            .map((one) => [one.name, one.marker.symbol, one.marker.color])"""
    )
    assert len({(symbol, colour) for _, symbol, colour in marks}) == len(marks)
    assert all(len(name) <= 40 for name, *_ in marks)


def test_backends_without_a_time_have_a_reason_and_no_part_of_charts_and_quantities(visit, folder):
    def is_wanted(entry):
        return any(row["status"] == "not applicable" and row["preparation"]["import"] for row in entry["rows"])

    entry = find_entry(folder, is_wanted)
    missing = {row["label"]: row for row in entry["rows"] if row["status"] in ("not applicable", "unavailable")}
    timed = {row["label"] for row in entry["rows"] if row["seconds"] is not None}
    names = {row["short"] for row in entry["rows"] if row["label"] not in missing}
    page = visit_case(visit, entry)
    for label, row in missing.items():
        assert page.locator(f'#rows tr[data-backend="{label}"] td').last.inner_text() == row["reason"]
        assert f"{label} {row['status']}" not in page.inner_text("#notes")
    drawn = page.evaluate("document.querySelector('#preparation .plot').data.flatMap((one) => one.y)")
    assert set(drawn) == names
    page.locator("summary", has_text="Everything").click()
    columns = page.locator("#quantities thead th").all_inner_texts()
    assert timed <= set(columns)
    legend = page.locator("#memory .legendtext").all_text_contents()
    series = page.evaluate("document.querySelector('#memory .plot').data.map((one) => one.name)")
    assert legend == ["peak of the process", "weights"] == series[::-1]  # plotly draws a group from its lower end


def test_a_row_says_between_which_times_the_middle_half_lies_and_tokens_a_second(visit, folder, collection):
    entry = find_entry(folder, lambda one: one["per"] == "token" and one["engine"] == "engine")
    page = visit_case(visit, entry)
    text = page.locator('#rows tr[data-backend="engine"]').inner_text()
    (row,) = [row for row in entry["rows"] if row["label"] == "engine"]
    (run,) = [
        run for run in collection.runs if run.name == entry["run"] and run.environment.machine == entry["machine"]
    ]
    (summary,) = [one for one in run.summaries() if (one.case, one.backend) == (entry["case"], "engine")]
    lines = [one for one in run.of(Samples) if (one.case, one.backend) == (entry["case"], "engine")]
    seconds = [one for line in lines for turn in line.seconds for one in turn]
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    steps = summary.latency.p50 / row["seconds"]
    assert f"{units.seconds(low / steps)} to {units.seconds(high / steps)}" in text
    cells = dict(zip(page.locator("#rows thead th").all_inner_texts(), re.split("\t", text), strict=True))
    assert abs(float(cells["tokens/s"].replace(",", "")) * row["seconds"] - 1) < 0.01


def test_too_few_sizes_tell_no_exponent():
    row = records.summary()
    assert Growth(row, "batch", (1, 2, 4, 8), 0.9, 0.8, 1.0).is_known
    assert not Growth(row, "batch", (1, 2, 4), 0.9, 0.8, 1.0).is_known
    assert not Growth(row, "batch", (1, 2, 4, 8), 0.9, 0.3, 1.5).is_known


def test_the_chart_of_growth_tells_threads_apart_and_leaves_out_doubtful_exponents(visit, folder, collection):
    assert Site(collection).models
    for name in sorted(path.name for path in folder.glob("model-*.html")):
        sweeps = read_data(folder / name)["growth"]
        machines = [one["machine"] for one in sweeps]
        wanted = [one for one in machines if len({two["threads"] for two in sweeps if two["machine"] == one}) > 1]
        if not wanted:
            continue
        page = visit(name, urlencode({"machine": wanted[0]}))
        page.wait_for_selector("#growth .js-plotly-plot")
        traces = page.evaluate("document.querySelector('#growth .plot').data.map((one) => [one.name, one.line.dash])")
        shown = [one for one in sweeps if one["machine"] == wanted[0]]
        assert len({dash for _, dash in traces}) > 1
        for (text, _), one in zip(traces, shown, strict=True):
            assert text.endswith("too few sizes") == (not one["known"])
        break
    else:
        raise AssertionError("no model has a sweep at two numbers of threads")
