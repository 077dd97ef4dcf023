"""The site of the committed results, and pages of it in a browser."""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import pickle
import shutil

import pytest

from suites.harness.record.collection import collect
from suites.site import build

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip


def pytest_collection_modifyitems(items):
    """Mark the tests that open a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


class Committed:
    """The committed results and their site. The first test process that asks for them makes them for all."""

    def __init__(self, root, place):
        self.folder = place / "committed"
        self._stored = place / "committed.pickle"
        with (place / "committed.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._stored.exists():
                found = collect(root / "results")
                self._read = found, build.build_site(found, self.folder)
                written = self._stored.with_suffix(".new")
                written.write_bytes(pickle.dumps(self._read))
                written.rename(self._stored)

    @functools.cached_property
    def _read(self):
        return pickle.loads(self._stored.read_bytes())

    @property
    def collection(self):
        return self._read[0]

    @property
    def built(self):
        """What `build_site` said."""
        return self._read[1]


@pytest.fixture(scope="session")
def committed(root, tmp_path_factory):
    place = tmp_path_factory.getbasetemp()
    return Committed(root, place.parent if "PYTEST_XDIST_WORKER" in os.environ else place)


@pytest.fixture(scope="session")
def collection(committed):
    return committed.collection


@pytest.fixture(scope="session")
def folder(committed):
    """The site of the committed results."""
    return committed.folder


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("pages are tested in Debian's chromium, which is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
    with api.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture(scope="session")
def tabs(browser):
    """Two tabs, and the list of what the console or the network complains of in them.

    They serve all tests, since a tab that has compiled the charts' script shows its next page in a third of the time.
    """
    complaints = []

    def open_tab():
        page = browser.new_context().new_page()
        page.set_default_timeout(120_000)  # milliseconds; other work may leave the browser little of the processor
        page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on(
            "request",
            lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else complaints.append(one.url),
        )
        return page

    return [open_tab(), open_tab()], complaints


def empty_tab(page):
    """Leave what `page` shows, and forget what it has stored."""
    if page.url.startswith("file:"):
        page.evaluate("localStorage.clear()")
    page.goto("about:blank")  # without it, an address that differs in its fragment alone would load nothing


@pytest.fixture
def visit(tabs, folder):
    """Opens a page from disk, and leaves the one before the last. Complaints of console or network fail the test."""
    pages, complaints = tabs
    complaints.clear()
    turns = itertools.cycle(pages)

    def go(name, fragment="", *, viewport=None, color_scheme="light"):
        page = next(turns)
        empty_tab(page)
        page.set_viewport_size(viewport or {"width": 1400, "height": 900})
        page.emulate_media(media="null", color_scheme=color_scheme)
        page.goto(f"file://{folder}/{name}{f'#{fragment}' if fragment else ''}")
        return page

    yield go
    for page in pages:
        empty_tab(page)
    assert complaints == []
