"""A package that is installed beside this one adds a pass, a target and a backend by its entry points alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PACKAGE = {
    "toy/__init__.py": "",
    "toy/passes.py": "def keep(graph):\n    return 0\n",
    "toy/targets.py": """
        from engine.targets.interpreter import InterpreterTarget

        class Toy(InterpreterTarget):
            name = "toy"
            summary = "as the interpreter"

        TARGET = Toy()
        """,
    "toy/backends.py": """
        from suites.backends import Declared

        BACKEND = Declared("toy", "toy.runtime:Toy", "eager under another name", ("torch",), (), "pip install toy")
        """,
    "toy/runtime.py": """
        from suites.backends.eager import Eager

        class Toy(Eager):
            pass
        """,
    "toy-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 1\n",
    "toy-1.dist-info/entry_points.txt": """
        [enginebench.passes]
        keep = toy.passes:keep
        [enginebench.targets]
        toy = toy.targets:TARGET
        [enginebench.backends]
        toy = toy.backends:BACKEND
        """,
}
USE = """
import json, torch, engine
from suites import backends
from suites.harness.declare.case import BackendRef

x = torch.randn(2, 4)
model = torch.nn.Linear(4, 3).eval()
program = engine.compile(model, (x,), engine.Config(target="toy"))
made = backends.load(BackendRef("toy"))(1, {})
made.load()
print(json.dumps({
    "passes": [one.name for one in engine.passes.stages(engine.Config())[0]],
    "target": program.config.target,
    "error": float((program(x) - model(x)).abs().max()),
    "backend": bool(torch.equal(made.prepare(model, (x,)).call(x), model(x))),
    "known": "toy" in backends.BACKENDS,
}))
"""


@pytest.fixture(scope="module")
def environment(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    for name, text in PACKAGE.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        lines = text.splitlines() if text[:1] != "\n" else [line[8:] for line in text.splitlines()[1:]]
        path.write_text("\n".join(lines) + "\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(root)])}


def run(environment, *command):
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


def test_a_package_adds_one_of_each(environment):
    ended = run(environment, "-c", USE)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert "keep" in found["passes"]
    assert (found["target"], found["backend"], found["known"]) == ("toy", True, True)
    assert found["error"] < 1e-6


def test_lists_have_what_a_package_adds(environment):
    listed = run(environment, "-m", "suites.cli", "list", "backends", "--json")
    assert "toy" in [one["name"] for one in json.loads(listed.stdout)]
    switches = run(environment, "-m", "suites.cli", "list", "switches", "--json")
    assert ("pass", "keep") in {(one["kind"], one["name"]) for one in json.loads(switches.stdout)}
