"""The site of the committed results, and pages of it in a browser."""

from __future__ import annotations

import shutil

import pytest

from suites.harness.record.collection import collect
from suites.site import build

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="session")
def collection(root):
    return collect(root / "results")


@pytest.fixture(scope="session")
def folder(collection, tmp_path_factory):
    """The site of the committed results."""
    made = tmp_path_factory.mktemp("built") / "site"
    build.build_site(collection, made)
    return made


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
    """Opens a page from disk. Whatever the console or the network complains of fails the test."""
    contexts, complaints = [], []

    def go(name, fragment="", **options):
        while len(contexts) > 2:  # pages with charts that stay open slow down those that follow; no test needs three
            contexts.pop(0).close()
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
