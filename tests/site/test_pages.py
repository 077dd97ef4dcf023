"""The pages in a browser: no errors, filters that work, numbers that are the record's, at every width."""

from __future__ import annotations

import json
import shutil
from urllib.parse import urlencode

import pytest

from suites.harness.judge.standing import judge_cases
from suites.harness.present import units
from suites.harness.record.collection import collect
from suites.site import build
from suites.site.page import Site
from tests.site.test_build import read_data

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="pages are tested in Debian's chromium, which is not installed"
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
LOCAL = ("file:", "data:", "blob:")
WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1400}


@pytest.fixture(scope="module")
def collection(root):
    return collect(root / "results")


@pytest.fixture(scope="module")
def folder(collection, tmp_path_factory):
    """The site of the committed results."""
    made = tmp_path_factory.mktemp("built") / "site"
    build.build_site(collection, made)
    return made


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
    with api.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture
def visit(browser, folder):
    """Opens a page from disk. Whatever the console or the network complains of fails the test."""
    contexts, complaints = [], []

    def go(name, fragment="", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on(
            "request",
            lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else complaints.append(one.url),
        )
        page.goto(f"file://{folder}/{name}{f'#{fragment}' if fragment else ''}")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def read_entries(folder):
    """The cases that the first page shows."""
    return read_data(folder / "index.html")["entries"]


def choose_machine(folder):
    """The address of the first page for a machine that has measured in bf16."""
    return urlencode({"machine": next(one["machine"] for one in read_entries(folder) if one["precision"] == "bf16")})


def list_pages(folder):
    return sorted(path.name for path in folder.glob("*.html"))


def test_every_page_draws_without_complaint_and_fits_every_width(visit, folder):
    from playwright import sync_api as api

    for name in list_pages(folder):
        page = visit(name)
        for width in WIDTHS.values():
            page.set_viewport_size({"width": width, "height": 900})
            try:  # charts follow the width a moment later
                page.wait_for_function(f"document.documentElement.scrollWidth <= {width}", timeout=3000)
            except api.TimeoutError:
                pytest.fail(f"{name} is wider than {width} pixels")
        for chart in page.query_selector_all(".chart:not([hidden])"):
            assert chart.query_selector(".main-svg"), (name, chart.get_attribute("id"))
        assert page.query_selector("h1").inner_text()


def test_the_matrix_has_the_numbers_of_the_record(visit, collection):
    site = Site(collection)
    page = visit("index.html")
    machine = next(iter(site.machines))
    shown = {row.get_attribute("data-case"): row for row in page.query_selector_all("#matrix tbody tr")}
    places = {place.standing.case: place for place in site.places if place.machine == machine}
    assert shown.keys() == places.keys()
    compared = 0
    for case, place in places.items():
        (standing,) = [one for one in judge_cases(place.run.summaries()) if one.case == case]
        if standing.lead is not None:
            compared += 1
            text = shown[case].query_selector(".lead-cell").inner_text()
            assert units.times(standing.lead.speed.value) in text
            assert units.interval(standing.lead.speed) in text
            assert standing.lead.other in text
    assert compared


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


def test_raw_numbers_lie_beside_every_chart(visit, folder):
    for name in list_pages(folder):
        page = visit(name)
        for link in page.query_selector_all(".raw a"):
            path = folder / link.get_attribute("href")
            text = path.read_text()
            assert text.count("\n") > 0 if path.suffix == ".csv" else isinstance(json.loads(text), list)


def test_light_and_dark_follow_the_system_and_the_button(visit):
    colours = []
    for scheme in ("light", "dark"):
        page = visit("index.html", color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    page.locator("#theme").click()
    colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == colours[2] != colours[1]
