"""Pages in a browser: one chromium for all tests, and a visitor that fails on whatever the page complains of."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
LOCAL = ("file:", "data:", "blob:")


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("pages are tested in Debian's chromium, which is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
    with api.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture
def visit(browser, folder):
    """Opens a page of the site in `folder` from disk. Complaints of the console or the network fail the test."""
    contexts, complaints = [], []

    def go(name, fragment="", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("request", lambda one: None if one.url.startswith(LOCAL) else complaints.append(one.url))
        page.goto(f"file://{folder}/{name}{f'#{fragment}' if fragment else ''}")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
