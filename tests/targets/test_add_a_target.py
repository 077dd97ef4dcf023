"""docs/add-a-target.md, followed literally."""

from __future__ import annotations

import importlib
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
from tests.exports import export_model
from tests.golden import models as golden

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-target.md").read_text()


def blocks(language):
    found = re.findall(rf"^ *```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for text in found]


@pytest.fixture(scope="module", autouse=True)
def followed(tmp_path_factory):
    """What the page's second block leaves behind, run beside the file of the first."""
    folder = tmp_path_factory.mktemp("target")
    (code,), (run,), (captured,) = blocks("python"), blocks("python run"), blocks("python captured")
    (folder / "definitions.py").write_text(code)
    (folder / "captured.py").write_text(captured)
    sys.path.insert(0, str(folder))
    names = {"engine": engine, "model": nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval(), "x": torch.ones(2, 4)}
    try:
        exec(run, names)
        targets.register(importlib.import_module("captured").Captured())
        yield names
    finally:
        sys.path.remove(str(folder))
        for name in ("definitions", "captured"):
            targets.TARGETS.pop(name, None)
            sys.modules.pop(name, None)


def test_the_target_on_the_page_runs_a_model(followed):
    torch.testing.assert_close(followed["program"](followed["x"]), followed["model"](followed["x"]))
    assert dict(followed["program"].report().kernels) == {"definition_linear": 1}


def leaves(result):
    return torch.utils._pytree.tree_leaves(result)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("bert-tiny", "definitions"),
        ("mamba-tiny", "captured"),
        *(
            pytest.param(name, target, marks=pytest.mark.long)
            for name, target in (
                ("bert-tiny", "captured"),
                ("mamba-tiny", "definitions"),
                ("resnet18-tiny", "definitions"),
                ("resnet18-tiny", "captured"),
            )
        ),
    ],
)
def test_it_gives_the_bits_of_the_interpreter(name, target):
    _model, inputs, exported = export_model(name)
    one, other = (engine.compile(exported, inputs, engine.Config(target=t)) for t in (target, "interpreter"))
    for _ in range(2):  # the second call finds a context that the first one warmed up
        for mine, theirs in zip(leaves(one(*inputs)), leaves(other(*inputs)), strict=True):
            assert torch.equal(mine, theirs)


def test_a_captured_program_takes_other_inputs_and_returns_fresh_results():
    model, x = nn.Linear(4, 8).eval(), torch.ones(2, 4)
    program = engine.compile(model, (x,), engine.Config(target="captured"))
    first, second = program(x), program(2 * x)
    torch.testing.assert_close(first, model(x))
    torch.testing.assert_close(second, model(2 * x))
    traced = program.trace(3 * x, keep=[0]).nodes[0]
    torch.testing.assert_close(torch.from_numpy(traced.outputs[0].array), model(3 * x).detach())


def test_a_captured_program_changes_the_states_of_its_calls():
    ids, scale = golden.example()
    results = {}
    for target in ("captured", "interpreter"):
        # A layer of the model is bfloat16, and the target reads no encoded weights.
        config = engine.Config(target=target, activations="model")
        program = engine.compile(golden.set_weights(golden.Small()), golden.example(), config)
        states = [program.new_state() for _ in range(2)]
        answers = [program(ids, scale, state=states[n]) for n in (0, 1, 0)]
        results[target] = [*leaves(answers), *(torch.tensor(state["total"]) for state in states)]
    assert all(map(torch.equal, results["captured"], results["interpreter"]))


def test_it_is_listed_as_a_switch():
    assert "definitions" in switch_names("target")


def test_the_page_names_what_there_is():
    """Every `Name.attribute` of the table at its end."""
    from engine import config, graph
    from engine.targets import base, bound, instruments, plan, staging

    modules = (base, bound, config, graph, instruments, plan, staging)
    known = {name: getattr(module, name) for module in modules for name in dir(module)}
    for owner, attribute in re.findall(r"`([A-Z]\w+)\.(\w+)`", PAGE.split("## A device", 1)[1]):
        fields = getattr(known[owner], "__annotations__", {})
        assert hasattr(known[owner], attribute) or attribute in fields, f"{owner}.{attribute}"
