"""Pages for people who use a keyboard, a screen reader, or other colours than the usual ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.forms import shorten

CHECKS = (Path(__file__).parent / "names.js").read_text(encoding="utf-8")
"""What is wrong with the names and headings of a page, in words."""

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
"""Texts whose contrast is below 4.5, and marks of charts below 3: level AA of WCAG 2."""
PAGES = ["index.html", "model-bert.html", "ablations.html", "precision.html", "machines.html"]


@pytest.mark.parametrize("name", shorten(PAGES, "index.html", "model-bert.html"))
def test_everything_has_a_name_and_headings_are_in_order(visit, name):
    page = visit(name)
    waiting = "document.querySelectorAll('.chart:not([hidden]) .plot:not(.js-plotly-plot)').length"
    page.wait_for_function(f"{waiting} === 0")
    assert page.evaluate(CHECKS) == []


@pytest.mark.parametrize(
    ("scheme", "name"),
    shorten(itertools.product(("light", "dark"), PAGES), ("light", "index.html"), ("dark", "model-bert.html")),
)
def test_texts_and_marks_have_the_contrast_of_level_aa(visit, scheme, name):
    assert visit(name, color_scheme=scheme).evaluate(CONTRAST) == []


@pytest.mark.parametrize("name", shorten([*PAGES[:-1], "kernels.html", "history.html"], "model-bert.html"))
def test_charts_say_in_words_what_they_show(visit, name):
    for plot in visit(name).query_selector_all(".chart:not([hidden]) .plot"):
        text = plot.get_attribute("aria-label")
        if plot.evaluate("one => !['growth', 'roofline', 'pairs'].includes(one.parentElement.id)"):
            assert text != plot.get_attribute("data-label")
            assert any(letter.isdigit() for letter in text.rpartition(": ")[2]), (name, text)


def test_the_keyboard_reaches_everything_in_the_order_of_the_page_and_shows_where_it_is(visit):
    page = visit("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tops = []
    for _ in range(12):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const one = document.activeElement;
            const shown = one.type === 'radio' ? one.nextSibling : one;
            const style = getComputedStyle(shown);
            const top = shown.getBoundingClientRect().top + scrollY;
            return [top, parseFloat(style.outlineWidth), style.outlineStyle]; }"""
        )
        tops.append(found[0])
        assert found[1] >= 2, page.evaluate("document.activeElement.outerHTML")
        assert found[2] == "solid"
    assert all(after > before - 30 for before, after in itertools.pairwise(tops))


@pytest.mark.parametrize("name", shorten(PAGES, "index.html", "precision.html"))
def test_no_word_of_a_table_or_an_axis_is_cut_on_a_phone(visit, name):
    page = visit(name, viewport={"width": 390, "height": 900})
    page.wait_for_timeout(300)
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.chart:not([hidden]) svg text')].filter((one) => {
            const box = one.getBoundingClientRect();
            return box.width && (box.left < -1 || box.right > innerWidth + 1);
        }).map((one) => one.textContent)"""
    )
    assert cut == []
    broken = page.evaluate(
        """() => [...document.querySelectorAll('.grid th code')].filter((one) => one.checkVisibility()
            && one.getClientRects().length > 1).map((one) => one.textContent)"""
    )
    assert broken == []
