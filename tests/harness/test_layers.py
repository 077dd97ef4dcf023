"""The stages of the harness import each other in one direction only."""

from __future__ import annotations

import ast

import pytest

ALLOWED = {
    "record": set(),
    "declare": set(),
    "measure": {"declare", "record"},
    "judge": {"declare", "record"},
    "run": {"declare", "judge", "measure", "record"},
    "present": {"declare", "judge", "measure", "record", "run"},
}
"""Stage -> the other stages whose modules its own may import."""
BELOW = {"errors", "files", "invalid"}
"""Modules that every stage may import."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("suites.harness."):
            yield (node.module or "").split(".")[2]
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[2] for name in node.names if name.name.startswith("suites.harness."))


def test_every_module_of_the_harness_belongs_to_a_stage(root):
    folder = root / "suites/harness"
    assert {path.name for path in folder.glob("*.py")} == {"__init__.py", *(f"{name}.py" for name in BELOW)}
    assert {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ALLOWED)


@pytest.mark.parametrize("stage", ALLOWED)
def test_a_stage_imports_only_the_stages_that_it_may(root, stage):
    allowed = ALLOWED[stage] | BELOW | {stage}
    for path in (root / "suites/harness" / stage).glob("*.py"):
        assert set(imported(path)) <= allowed, path.name


def test_nothing_that_measures_imports_rich(root):
    for stage in ("declare", "measure", "judge", "record", "run"):
        for path in (root / "suites/harness" / stage).glob("*.py"):
            assert "rich" not in path.read_text().split("import", 1)[0], path
            assert "from rich" not in path.read_text(), path.name
