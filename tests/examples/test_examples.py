"""Every file of examples/ runs and prints what its text promises."""

from __future__ import annotations

import json
import re
import runpy

import pytest

from suites.cli import main

# A line that each example prints.
PRINTS = {
    "ablation.py": r"fuse_epilogue +\d+ +\d+ +[\d.]+ us +[\d.]+x",
    "decoder.py": r"in the cache: \[7, 5\]",
    "dynamic_shapes.py": r"refused: batch = 17: compiled for 1 to 16",
    "own_model.py": r"relative error against eager: \d\.\de-0[67]",
    "torch_compile.py": r"program with \d+ kernel calls, 0 calls left to torch",
}


def test_every_example_is_here(root):
    assert {path.name for path in (root / "examples").glob("*.*")} == {*PRINTS, "own_suite.toml"}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(root, name, capsys):
    runpy.run_path(str(root / "examples" / name), run_name="__main__")
    assert re.search(PRINTS[name], capsys.readouterr().out)


def test_the_suite_has_a_case_for_each_width_of_the_model(root, capsys, tmp_path):
    suite = str(root / "examples/own_suite.toml")
    with pytest.raises(SystemExit) as ended:
        main(["run", suite, "--dry-run", "--json", "--results", str(tmp_path)])
    assert not ended.value.code
    text = json.dumps(json.loads(capsys.readouterr().out))
    assert {int(width) for width in re.findall(r"own_model\.py:factory/default/t1/fp32/width=(\d+)", text)} == {64, 256}


@pytest.mark.parametrize("name", ["README.md", "docs/troubleshooting.md", "CONTRIBUTING.md"])
def test_links_to_files_of_the_checkout_are_not_broken(root, name):
    path = root / name
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), f"{name} links to {link}"


def test_the_readme_links_to_the_examples(root):
    text = (root / "README.md").read_text()
    assert {"examples/", "CONTRIBUTING.md", "docs/troubleshooting.md"} <= set(re.findall(r"\]\(([^)]+)\)", text))
