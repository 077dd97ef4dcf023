"""Pages on narrow screens, on paper, without scripts, and at addresses that name what they do not have."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from suites.harness.judge.judged_case import count_firsts
from suites.site.page import Site
from tests.forms import shorten
from tests.site.test_build import read_data

OVERFLOW = """() => [...document.querySelectorAll('.scroll')].filter((one) => one.checkVisibility()
    && one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute('aria-label'))"""


@pytest.mark.parametrize("name", ["history.html", "machines.html"])
def test_tables_of_histories_and_machines_fit_a_phone(visit, name):
    page = visit(name, viewport={"width": 390, "height": 900})
    page.wait_for_selector(".stack tbody tr")
    assert page.evaluate(OVERFLOW) == []


@pytest.mark.parametrize("width", shorten([390, 820, 1400], 390))
def test_a_table_that_goes_on_says_so_and_others_do_not(visit, width):
    page = visit("index.html", viewport={"width": width, "height": 900})
    page.wait_for_selector("#matrix tbody tr")
    wide = page.evaluate(OVERFLOW)
    assert wide
    told = "[...document.querySelectorAll('.hint')].filter((one) => one.checkVisibility()).length"
    page.wait_for_function(f"{told} === {len(wide)}")
    assert page.evaluate("document.querySelectorAll('.scroll.more').length") == len(wide)
    page.evaluate("document.querySelector('#matrix').parentElement.scrollLeft = 1e6")
    page.wait_for_function(f"document.querySelectorAll('.scroll.more').length === {len(wide) - 1}")


def test_the_page_uses_the_width_of_the_screen(visit):
    page = visit("index.html")
    assert page.evaluate("document.querySelector('#matrix').parentElement.clientWidth") > 1330


def test_paper_is_light_and_no_table_is_cut(visit):
    page = visit("index.html", color_scheme="dark")
    page.wait_for_selector("#leads .js-plotly-plot")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    colour = "document.querySelector('#leads .plot').layout.font.color"
    assert page.evaluate(colour) == "#1b2026"
    assert page.evaluate("document.querySelector('#leads .plot').layout.width") == 680  # A4 at 96 dots an inch
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.evaluate("document.querySelector('#models thead').offsetHeight") < 45  # words, not letters, in columns
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(colour) != "#1b2026"


@pytest.mark.parametrize("name", shorten(["history.html", "model-bert.html"], "history.html"))
def test_pages_are_no_wider_than_paper(visit, name):
    page = visit(name, viewport={"width": 720, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("document.documentElement.scrollWidth <= 720", timeout=3000)


def test_without_scripts_each_page_says_what_is_missing_and_where_the_numbers_are(folder, browser, collection):
    for path in sorted(folder.glob("*.html")):
        (text,) = re.findall(r"<noscript>(.*?)</noscript>", path.read_text(), re.DOTALL)
        assert "need JavaScript" in text
        links = re.findall(r'href="([^"]+)"', text)
        assert links
        assert all((folder / link).is_file() for link in links)
    site = Site(collection)
    first = read_data(folder / "index.html")["machines"][0]["name"]
    tally = str(count_firsts([place.judged for place in site.places if place.machine == first]))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{folder}/index.html")
    assert page.inner_text("#tally")
    assert tally.startswith(page.inner_text("#tally"))
    assert "need JavaScript" in page.locator("noscript").inner_text()
    context.close()


def test_the_sentence_of_the_page_without_scripts_is_that_with_scripts(visit, folder):
    (text,) = re.findall(r'id="tally"[^>]*>([^<]+)<', (folder / "index.html").read_text())
    page = visit("index.html")
    page.wait_for_selector("#matrix tbody tr")
    assert page.inner_text("#tally") == text
    assert page.locator("#filters .unknown").count() == 0  # the address names nothing


def test_an_address_that_names_what_the_page_does_not_have_says_so(visit):
    page = visit("index.html", urlencode({"machine": "nonsense", "precision": "bf16"}))
    assert 'does not have: Machine "nonsense"' in page.inner_text("#filters .unknown")
    page.get_by_role("button", name="Reset").click()
    assert page.locator("#filters .unknown").count() == 0


def test_a_click_on_a_permalink_keeps_its_chart_in_the_address(visit):
    page = visit("model-bert.html")
    page.locator('[data-permalink="memory"]').click()
    page.wait_for_function("location.hash.includes('show=memory')")
    page.wait_for_timeout(300)
    assert "show=memory" in page.url
    assert "=&" not in f"{page.url}&"
    page.locator('select[name="case"]').select_option(index=1)
    assert "show=" not in page.url
    assert "=&" not in f"{page.url}&"


@pytest.mark.long
@pytest.mark.parametrize("name", ["model-bert.html", "model-gpt2.html"])
def test_no_address_has_a_filter_without_a_value(visit, name):  # all pages of models have one script
    page = visit(name)
    options = page.locator('select[name="case"] option').evaluate_all("all => all.map((one) => one.value)")
    for option in (options[0], options[-1]):
        page.locator('select[name="case"]').select_option(option)
        assert "=&" not in f"{page.url}&"


def test_filters_without_a_choice_are_not_shown(visit):
    page = visit("history.html")
    assert page.locator("#count-filters").is_visible()
    page.evaluate("() => { bench.makeFilters(document.getElementById('filters'), [], () => {}); }")
    assert not page.locator("#filters").is_visible()


def test_kernels_open_with_what_is_executed_and_mark_saved_operations(visit):
    page = visit("kernels.html")
    page.wait_for_selector("#compute .js-plotly-plot")
    shares = "document.querySelector('#compute .plot').data.flatMap((one) => one.y)"
    texts = "document.querySelector('#compute .plot').data.flatMap((one) => one.customdata)"
    assert max(page.evaluate(shares)) <= 1.02
    assert not any("operations saved" in text for text in page.evaluate(texts))
    page.get_by_text("work of the op", exact=True).click()
    found = dict(zip(page.evaluate(texts), page.evaluate(shares), strict=True))
    above = [text for text, share in found.items() if share > 1.02]
    assert above
    assert all("operations saved" in text for text in above)


def test_labels_above_marks_stand_on_a_ground_of_their_own(visit):
    page = visit("index.html", viewport={"width": 390, "height": 900})
    page.wait_for_selector("#leads .js-plotly-plot")
    notes = page.evaluate("document.querySelector('#leads .plot').layout.annotations.map((one) => one.bgcolor)")
    assert notes
    assert set(notes) == {"#ffffff"}


def test_the_page_of_machines_says_what_believed_means(folder):
    assert "Believed: the rate is plausible" in (folder / "machines.html").read_text()
