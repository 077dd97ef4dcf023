"""docs/add-a-pass.md, followed literally."""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import torch
from torch import nn

import engine
from engine import installed, passes
from engine.graph import Graph
from engine.ops import TensorType
from engine.passes import own
from suites import backends
from suites.harness.declare.case import BackendRef
from suites.harness.run import ablate
from tests.graphs import ops

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-pass.md").read_text()


def blocks(language):
    found = re.findall(rf"^ *```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for text in found]


class Doubling(nn.Module):
    def forward(self, x):
        return torch.sin(x + x)


X = torch.linspace(-1, 1, 6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the page's file in it."""
    (code,) = blocks("python")
    (tmp_path / "double.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_pass_on_the_page_works(folder):
    g = Graph()
    x, y = (g.add_input(n, TensorType("float32", (2,))) for n in "xy")
    i = g.add_input("i", TensorType("int64", (2,)))
    g.outputs = [g.emit("add", [x, x]), g.emit("add", [x, y]), g.emit("add", [i, i])]
    one = own.load("double.py:run")
    assert (one.name, one.summary) == ("double", "Replace x + x by 2 * x")
    assert one.run(g) == 1
    assert ops(g) == ["mul", "add", "add"]


def test_it_runs_as_the_page_says(folder):
    (code,) = blocks("python run")
    names = {"engine": engine, "model": Doubling().eval(), "x": X}
    exec(code, names)
    program, without = names["program"], names["without"]
    (label,) = [name for name, changes in program.report().passes if name.startswith("double@") and changes == 1]
    assert re.fullmatch(r"double@[0-9a-f]{12}", label)
    assert not [name for name, _ in without.report().passes if name.startswith("double")]
    torch.testing.assert_close(program(X), torch.sin(2 * X))
    torch.testing.assert_close(without(X), torch.sin(2 * X))
    assert program.run_digest != without.run_digest


def test_its_place_is_the_one_that_the_page_names(folder):
    common, late = passes.stages(engine.Config(passes=("double.py:run",)))
    names = [one.name for one in common]
    last = len(names) - 1 - names[::-1].index("absorb_scalar")
    assert names[last - 1] == "double"
    assert "double" not in [one.name for one in late]
    given = passes.stages(engine.Config(pipeline=("fold_constants", "double.py:run")))
    assert [one.name for one in given[0]] == ["fold_constants", "double"]


def test_suites_and_ablations_take_it_as_the_page_says(folder):
    labels = tomllib.loads(blocks("toml")[0])["backends"]
    for label in labels:
        backends.check(BackendRef.parse(label))
    (command,) = blocks("bash")
    label = re.search(r'"(.*)"', command)[1]
    assert label == labels[1]
    ablation = ablate.of_backend(label, [command.split()[-1]])
    (switch,) = ablation.switches
    asked = ablation.asked(["leave_one_out", "add_one_in"])
    for options in asked:
        backends.check(BackendRef("engine", options))
    made = backends.load(BackendRef("engine"))(1, {})
    digests = [made.program_facts(Doubling().eval(), (X,), options)["run_digest"] for options in asked]
    assert len(set(digests)) == len(digests) == 4, "whole, bare, without it, with it alone"
    assert switch.name == "double"


def test_an_entry_point_is_declared_as_the_page_says(folder, monkeypatch):
    ((name, value),) = tomllib.loads(blocks("toml")[1])["project"]["entry-points"][own.GROUP].items()
    point = metadata.EntryPoint(name, value.replace("my_package.", ""), own.GROUP)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(installed.metadata, "entry_points", lambda group: [point] if group == own.GROUP else [])
    monkeypatch.delitem(sys.modules, "double", raising=False)
    (one,) = own.installed()
    assert (one.name, len(one.version)) == ("double", 12)
    monkeypatch.setattr(passes, "_installed", [one])
    monkeypatch.setitem(passes.PASSES, "double", one)
    assert "double" in [p.name for p in passes.stages(engine.Config())[0]]
