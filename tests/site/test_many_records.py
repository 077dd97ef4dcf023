"""What the site does with a large results folder: what decides its time is asserted, not the time itself.

docs/publishing.md has measured times. 6,400 of 100,000 lines have the same shape: every machine has a run, and every
model a case. ``make site-many`` takes all.
"""

from __future__ import annotations

import os
import re
import runpy

import pytest

from suites.harness.record.collection import collect
from suites.site import build

LINES = int(os.environ.get("ENGINEBENCH_TEST_LINES", "6400"))
MOST_BYTES = 1_500_000
"""Of the first page with all that it loads, without plotly's script: half a second at 25 Mbit/s, uncompressed."""


@pytest.fixture(scope="module")
def many(root, tmp_path_factory):
    """The site of many runs of 20 machines, and the runs."""
    folder = tmp_path_factory.mktemp("many")
    made = runpy.run_path(str(root / "tools" / "make_results.py"))
    made["write_results"](folder / "results", LINES)
    collection = collect(folder / "results")
    return collection, build.build_site(collection, folder / "site")


def test_every_line_is_read_and_every_run_is_listed(many):
    collection, built = many
    assert collection.problems == ()
    assert sum(1 + len(run.records) for run in collection.runs) == LINES
    rows = (built.folder / "data" / "machines-runs.csv").read_text().count("\n")
    assert rows == 1 + len(collection.runs)


def test_the_first_page_loads_the_cases_of_one_machine_only(many):
    _, built = many
    text = (built.folder / "index.html").read_text()
    files: list[str] = re.findall(r'(?:src|href)="([^"#]+\.(?:js|css))"', text)
    sizes = {place: (built.folder / place).stat().st_size for place in files}
    assert [place for place in files if place.startswith("data/")] == ["data/index-machine-1.js"]
    assert files[-1] == "assets/plotly.min.js"  # numbers come before the chart
    assert sum(sizes.values()) - sizes[files[-1]] + len(text) < MOST_BYTES
    assert len(list((built.folder / "data").glob("index-machine-*.js"))) == 20


def test_the_number_of_pages_does_not_grow_with_the_runs(many):
    _, built = many
    assert built.pages == 40 + len(build.PAGES) - 1  # one of them makes the pages of models
