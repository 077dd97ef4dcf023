"""The pages in a browser: no errors, filters that work, numbers that are the record's, at every width."""

from __future__ import annotations

import csv
import functools
import json
from urllib.parse import urlencode

import pytest

from suites.harness.judge.judged_case import judge_cases
from suites.harness.present import units
from suites.harness.record.schema import AblationRecord
from suites.site.page import Site
from tests.forms import shorten
from tests.site.test_build import read_data

WIDTHS = {"desktop": 1400, "tablet": 820, "phone": 390}  # from that of a visit on: a narrower one is the harder one


TEMPLATES = [
    "index.html", "model-bert.html", "ablations.html", "precision.html", "kernels.html", "history.html",
    "machines.html",
]  # fmt: skip
"""One page of each kind."""


@functools.cache
def read_entries(folder):
    """The cases that the first page shows."""
    return read_data(folder / "index.html")["entries"]


def choose_machine(folder):
    """The address of the first page for a machine that has measured in bf16."""
    return urlencode({"machine": next(one["machine"] for one in read_entries(folder) if one["precision"] == "bf16")})


def list_pages(folder):
    return sorted(path.name for path in folder.glob("*.html"))


@pytest.mark.parametrize(
    ("names", "widths"),
    [
        pytest.param(TEMPLATES, ["phone"], id="templates"),
        pytest.param(None, WIDTHS, id="all", marks=pytest.mark.long),
    ],
)
def test_every_page_draws_without_complaint_fits_every_width_and_has_its_raw_numbers(visit, folder, names, widths):
    from playwright import sync_api as api

    for name in names or list_pages(folder):
        page = visit(name)
        for width in [WIDTHS[one] for one in widths]:
            page.set_viewport_size({"width": width, "height": 900})
            try:  # charts follow the width a moment later
                page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
            except api.TimeoutError:
                pytest.fail(f"{name} is wider than {width} pixels")
        for chart in page.query_selector_all(".chart:not([hidden])"):
            assert chart.query_selector(".main-svg"), (name, chart.get_attribute("id"))
        assert page.query_selector("h1").inner_text()
        for link in page.query_selector_all(".raw a"):
            path = folder / link.get_attribute("href")
            text = path.read_text()
            assert text.count("\n") > 0 if path.suffix == ".csv" else isinstance(json.loads(text), list)


def test_the_matrix_has_the_numbers_of_the_record(visit, collection):
    site = Site(collection)
    page = visit("index.html")
    machine = next(name for name in site.machines if any(place.machine == name for place in site.places))
    shown = dict(
        page.evaluate(
            """() => [...document.querySelectorAll('#matrix tbody tr')].map((row) =>
                [row.dataset.case, row.querySelector('.lead-cell')?.innerText ?? ''])"""
        )
    )
    places = {place.judged.case: place for place in site.places if place.machine == machine}
    assert shown.keys() == places.keys()
    compared = 0
    judged = {place.run.path: judge_cases(place.run.summaries()) for place in places.values()}
    for case, place in places.items():
        (recorded,) = [one for one in judged[place.run.path] if one.case == case]
        if recorded.lead is not None:
            compared += 1
            text = shown[case]
            assert units.times(recorded.lead.speed.value) in text
            assert units.interval(recorded.lead.speed) in text
            assert recorded.lead.other in text
    assert compared
    signs = {sign for text in page.locator("#matrix th small").all_inner_texts() for sign in list_signs(text)}
    assert signs
    assert signs <= set(page.locator("#marks b").all_inner_texts())


def list_signs(text):
    """The marks in a small text of the matrix, such as ``marks: n? q``."""
    return text.removeprefix("marks:").split() if text.startswith("marks:") else []


def test_filters_leave_rows_out_and_stand_in_the_address(visit, folder):
    page = visit("index.html", choose_machine(folder))
    before = len(page.query_selector_all("#matrix tbody tr"))
    page.get_by_text("bf16", exact=True).first.click()
    rows = [row.get_attribute("data-case") for row in page.query_selector_all("#matrix tbody tr")]
    assert 0 < len(rows) < before
    assert all("/bf16" in case for case in rows)
    fragment = page.url.partition("#")[2]
    assert "precision=bf16" in fragment
    again = visit("index.html", fragment)
    assert [row.get_attribute("data-case") for row in again.query_selector_all("#matrix tbody tr")] == rows
    again.get_by_label("Case contains").fill("no such case")
    assert "No case fits these filters." in again.inner_text("#tally")
    again.get_by_role("button", name="Reset").click()
    assert again.query_selector_all("#matrix tbody tr")
    assert again.url.partition("#")[2] == ""
    assert page.inner_text("#tally").startswith("Engine first in ")


def test_labels_leave_out_only_what_a_filter_sets(visit, folder):
    slower = [one for one in read_entries(folder) if one["best"] and one["best"]["verdict"] == "slower"]
    for name in dict.fromkeys(one["machine"] for one in slower):
        machine = [one for one in read_entries(folder) if one["machine"] == name]
        page = visit("index.html", urlencode({"machine": name, "verdict": "slower"}))
        for entry in [one for one in slower if one["machine"] == name]:
            label = page.locator(f'#matrix tr[data-case="{entry["case"]}"] a').inner_text().split()
            assert (f"t{entry['threads']}" in label) == (len({one["threads"] for one in machine}) > 1)
            assert (entry["precision"] in label) == (len({one["precision"] for one in machine}) > 1)
    page = visit("index.html", urlencode({"machine": entry["machine"], "threads": entry["threads"]}))
    label = page.locator(f'#matrix tr[data-case="{entry["case"]}"] a').inner_text().split()
    assert f"t{entry['threads']}" not in label


def test_filters_work_by_keyboard(visit, folder):
    page = visit("index.html", choose_machine(folder))
    page.locator('input[name="precision"]').first.focus()
    page.keyboard.press("ArrowRight")
    assert "precision=" in page.url
    assert page.evaluate("document.activeElement.name") == "precision"


def test_a_case_links_to_its_page_with_the_same_numbers(visit, folder):
    entry = next(one for one in read_entries(folder) if one["best"])
    page = visit(entry["page"], urlencode({"machine": entry["machine"], "case": entry["case"]}))
    assert entry["run"] in page.inner_text("#about")
    row = page.query_selector(f'#rows tr[data-backend="{entry["best"]["other"]}"]').inner_text()
    assert entry["best"]["text"] in row
    assert entry["best"]["interval"] in row


def test_light_and_dark_follow_the_system_and_the_button(visit):
    colours = []
    for scheme in ("light", "dark"):
        page = visit("machines.html", color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    page.locator("#theme").click()
    colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == colours[2] != colours[1]


def test_the_own_switches_of_another_backend_are_shown_as_such(visit, collection):
    run = next(one for one in collection.runs if one.name == "20261122T195953Z_853e4270c15d_ablate_onnxruntime")
    case = run.of(AblationRecord)[0].case
    page = visit("ablations.html", urlencode({"machine": run.environment.machine}))
    assert "switches of" not in page.inner_text("#about")  # the engine comes first
    page.get_by_text("onnxruntime", exact=True).first.click()
    assert "backend=onnxruntime" in page.url
    page.locator('select[name="case"]').select_option(f"{case} onnxruntime")
    assert "These are switches of onnxruntime itself." in page.inner_text("#about")
    shown = {row.get_attribute("data-switch"): row.inner_text() for row in page.query_selector_all("#switches tr")}
    for record in run.of(AblationRecord):
        if record.speed is not None:
            assert units.times(record.speed.value) in shown[record.switch]
    assert [one.get_attribute("value") for one in page.query_selector_all('input[name="backend"]')] == [
        "engine", "onnxruntime", "torch_compile",
    ]  # fmt: skip


def test_the_chart_of_precisions_draws_every_distance_and_marks_unknown_bytes(visit, folder):
    page = visit("precision.html")
    page.wait_for_selector(".card .js-plotly-plot")
    charts = page.evaluate(
        """() => [...document.querySelectorAll('.card')].map((card) => card.querySelector('.plot').data.map(
            (one) => [one.name, one.y[0], one.marker.symbol, one.marker.size]))"""
    )
    groups = read_data(folder / "precision.html")["groups"]
    (machine,) = {one["machine"] for one in groups if one["machine"] == groups[0]["machine"]}
    unknown = known = 0
    for group, chart in zip([one for one in groups if one["machine"] == machine], charts, strict=True):
        marks = {name: rest for name, *rest in chart}
        for one in [one for one in group["entries"] if one["distance"] is not None]:
            y, symbol, size = marks[f"{one['backend']} {one['precision']}"]
            assert y == pytest.approx(max(one["distance"], 1e-14), rel=1e-9)
            if one["bytes"] is None:
                unknown += 1
                assert symbol == "pentagon-open-dot"
                assert size == pytest.approx(15.5)  # between the least and the largest
            else:
                known += 1
                assert "pentagon" not in symbol
    assert unknown
    assert known
    assert "does not tell how many bytes" in page.inner_text("main")
    assert "below 10⁻¹⁴" in page.inner_text("main").lower()


def test_the_back_button_takes_a_choice_back_and_leads_to_the_page_before(visit, folder):
    machine = choose_machine(folder)
    page = visit("index.html", machine)
    before = page.inner_text("#tally")
    page.get_by_text("bf16", exact=True).first.click()
    assert page.inner_text("#tally") != before
    page.get_by_label("Case contains").fill("bert")  # letters of a search are no steps
    page.go_back()
    page.wait_for_function("text => document.getElementById('tally').innerText === text", arg=before)
    assert page.locator('input[name="precision"]:checked').get_attribute("value") == ""
    page.go_forward()
    page.wait_for_function("text => document.getElementById('tally').innerText !== text", arg=before)
    page.locator("#matrix tbody a").first.click()
    page.wait_for_load_state("load")
    page.wait_for_selector("#rows tbody tr")
    page.go_back()
    page.wait_for_load_state("load")
    page.wait_for_selector("#matrix tbody tr")
    assert "precision=bf16" in page.url


def list_filters(page):
    """Name of each filter that has a second value -> that value."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#filters select, #filters input')].map((one) => {
            if (one.type === 'search') return [one.name, 'a'];
            const all = one.type === 'radio' ? [...document.getElementsByName(one.name)] : [...one.options];
            return [one.name, all[all.length - 1].value];
        }))"""
    )


def read_content(page):
    """Texts of what filters change: all tables, and what charts say."""
    texts = "[...document.querySelectorAll('main table, main .lead')].map((one) => one.textContent)"
    charts = "[...document.querySelectorAll('.chart:not([hidden]) .plot')].map((one) => one.getAttribute('aria-label'))"
    return page.evaluate(f"[...{texts}, ...{charts}]")


@pytest.mark.parametrize("name", shorten(["index.html", "ablations.html", "model-bert.html"], "ablations.html"))
def test_every_filter_is_restored_from_the_address(visit, name):  # all pages make their filters by one script
    for key, value in list_filters(visit(name)).items():
        page = visit(name)
        control = page.locator(f'#filters [name="{key}"]')
        kind = control.first.evaluate("one => one.type")
        if kind == "radio":
            control.last.evaluate("one => one.click()")
        elif kind == "search":
            control.fill(value)
        else:
            control.select_option(value)
        page.wait_for_load_state("networkidle")
        fragment = page.url.partition("#")[2]
        assert urlencode({key: value}) in fragment, (name, key)
        again = visit(name, fragment)
        assert read_content(again) == read_content(page), (name, key)
        for link in again.query_selector_all("[data-permalink]"):
            assert urlencode({key: value}) in link.get_attribute("href"), (name, key)


@pytest.mark.parametrize(
    "name", shorten(["index.html", "model-bert.html", "ablations.html", "precision.html"], "model-bert.html")
)
def test_a_permalink_shows_its_chart(visit, name):
    page = visit(name)
    link = page.locator("[data-permalink]:visible").last
    place = link.get_attribute("data-permalink")
    again = visit(name, link.get_attribute("href").removeprefix("#"))
    top, height = again.evaluate("id => [document.getElementById(id).getBoundingClientRect().top, innerHeight]", place)
    assert -5 <= top < height, place


def test_raw_numbers_are_those_of_the_page(visit, folder):
    def read_csv(name):
        with (folder / "data" / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    for name in sorted(path.stem for path in (folder / "data").glob("*.csv")):
        rows, values = read_csv(name), json.loads((folder / "data" / f"{name}.json").read_text())
        assert [list(row.values()) for row in rows] == [[write_csv(one) for one in row.values()] for row in values]
    entries = read_entries(folder)
    leads = {(row["machine"], row["case"], row["backend"]): row for row in read_csv("index-cases")}
    for entry in entries:
        for cell in entry["cells"].values():
            row = leads[entry["machine"], entry["case"], cell["label"]]
            assert row["engine_speed"] == ("" if cell["lead"] is None else str(cell["lead"]["value"]))
    page = visit("machines.html")
    assert page.locator("#runs tbody tr").count() == len(read_csv("machines-runs"))
    switches = {row["switch"] for row in read_csv("ablations-switches")}
    shown = visit("ablations.html").locator("#switches tr[data-switch]")
    assert set(shown.evaluate_all("all => all.map((one) => one.dataset.switch)")) <= switches
    found = {f"{row['backend']} {row['precision']}" for row in read_csv("precision-precisions")}
    shown = visit("precision.html").locator("tr[data-row]")
    assert set(shown.evaluate_all("all => all.map((one) => one.dataset.row)")) <= found


def write_csv(value):
    """A value of JSON as CSV has it."""
    return "" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)
