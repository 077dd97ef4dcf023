"""docs/add-a-target.md, followed literally."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

import engine
from engine import targets
from engine.switches import names as switch_names
from suites import models

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-target.md").read_text()


def blocks(language):
    found = re.findall(rf"^ *```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for text in found]


@pytest.fixture(scope="module", autouse=True)
def followed(tmp_path_factory):
    """What the page's second block leaves behind, run beside the file of the first."""
    folder = tmp_path_factory.mktemp("target")
    (code,), (run,) = blocks("python"), blocks("python run")
    (folder / "definitions.py").write_text(code)
    sys.path.insert(0, str(folder))
    names = {"engine": engine, "model": nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval(), "x": torch.ones(2, 4)}
    try:
        exec(run, names)
        yield names
    finally:
        sys.path.remove(str(folder))
        targets.TARGETS.pop("definitions", None)


def test_the_target_on_the_page_runs_a_model(followed):
    torch.testing.assert_close(followed["program"](followed["x"]), followed["model"](followed["x"]))
    assert dict(followed["program"].report().kernels) == {"definition_linear": 1}


@pytest.mark.parametrize("name", ["bert-tiny", "resnet18-tiny", "mamba-tiny"])
def test_it_gives_the_bits_of_the_interpreter(name):
    model, inputs = models.get(name).build()
    one, other = (engine.compile(model, inputs, engine.Config(target=t)) for t in ("definitions", "interpreter"))
    for mine, theirs in zip(*map(torch.utils._pytree.tree_leaves, (one(*inputs), other(*inputs))), strict=True):
        assert torch.equal(mine, theirs)


def test_it_is_listed_as_a_switch():
    assert "definitions" in switch_names("target")


def test_the_page_names_what_there_is():
    """Every `Name.attribute` of the table at its end."""
    from engine.targets import base, bound, staging

    known = {n: getattr(module, n) for module in (base, bound, staging) for n in dir(module)}
    for owner, attribute in re.findall(r"`([A-Z]\w+)\.(\w+)`", PAGE.split("## A device", 1)[1]):
        fields = getattr(known[owner], "__annotations__", {})
        assert hasattr(known[owner], attribute) or attribute in fields, f"{owner}.{attribute}"
