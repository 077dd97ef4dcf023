"""The code of docs/quantised-models.md runs, and the page says what the report shows."""

from __future__ import annotations

import re

import numpy as np
import pytest

import engine

pytest.importorskip("torchao")


def test_the_example_runs_and_its_report_is_as_the_page_says(root, tmp_path, monkeypatch, capsys):
    page = (root / "docs/quantised-models.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(code, "docs/quantised-models.md", "exec"), names)  # the code of the page is the test
    printed = capsys.readouterr().out
    assert re.search(r"weights=quantised +2\n", printed)
    assert re.search(r"f32_qc8w_linear\S+ +2\n", printed)
    loaded = engine.load(tmp_path / "model.engine")
    np.testing.assert_array_equal(loaded(names["x"]), names["program"](names["x"]))


def test_links_of_the_page_are_not_broken(root):
    page = root / "docs/quantised-models.md"
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link
