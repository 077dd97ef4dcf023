"""The smallest part of a model that fails: what is left, of which sizes and values, and that it fails by itself."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import engine
from engine.errors import ComparisonError, ConfigError, ProgramError
from engine.inspect.capsule import replay
from engine.inspect.command import Command
from engine.inspect.minify import Subject, minify
from tests import messages
from tests.inspect.planted import cases
from tests.inspect.planted.plant import read_faults

UNINITIALISED = "last-panel-is-not-packed"
"""Reads memory that nobody wrote: the script, in a new process, may find anything there, and then it is no result."""
FAULTS = [
    one
    for one in read_faults()
    if not (one.is_native or one.name == UNINITIALISED or isinstance(getattr(cases, one.case)()[1], list))
]
ROOT = Path(__file__).resolve().parents[2]
QUICK = ("batch-norm-leaves-the-bias-of-the-convolution-unscaled",)  # each takes 15 s and more
PATTERNS = {"second-scale-displaces-the-first-of-an-rms-norm": 7, "gate-and-up-trade-places": 6}
"""Faults of passes that look for so many calls; of the others 5 may be left."""


class Deep(nn.Module):
    """Layers before and behind the only one that fails."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(6))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) + x
            if number == 3:
                x = torch.cumsum(x, 1)
        return x.softmax(-1), x.sum()


MODEL, X = Deep().eval(), torch.randn(5, 24, generator=torch.Generator().manual_seed(0))


def make_subject(fault):
    return Subject(
        f"eager with {fault}",
        "from tests.inspect import subject\n"
        f"results = subject.run(torch.fx.symbolic_trace(model), inputs, {{'fault': {fault!r}}})",
        "tests.inspect.subject:run",
        {"fault": fault},
    )


@pytest.fixture(scope="module")
def minified(tmp_path_factory):
    """The result and the capsule of each kind of fault: the tests below look at parts of them."""
    made = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(ROOT))
        for fault in ("wrong", "error"):
            path = tmp_path_factory.mktemp(fault) / "case.capsule"
            made[fault] = minify(MODEL, (X,), fault, candidate=make_subject(fault), capsule=path), path
    return made


@pytest.fixture(autouse=True)
def find_tests(monkeypatch):
    """In new processes, which run scripts; those plant the fault of PLANTED."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/inspect/planted/site'}:{ROOT}")


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # of torch, which copies x there
@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.long, id=one.name) for one in FAULTS]
)
def test_few_calls_are_left_of_the_model_of_a_fault_and_fail_elsewhere(fault, monkeypatch, tmp_path):
    """The capsule is replayed where torch cannot be imported; without the fault it does not fail."""
    monkeypatch.setenv("PLANTED", fault.name)
    model, inputs = getattr(cases, fault.case)()
    kind, config = "nan" if fault.kind == "nan" else "wrong", engine.Config(**fault.config)
    path = tmp_path / "case.capsule"
    found = minify(model, inputs, kind, candidate=config, setup=["tests.inspect.planted.trial"], capsule=path)
    assert found.calls[0] <= PATTERNS.get(fault.name, 5), str(found)
    assert found.passing != found.case
    monkeypatch.setenv("PLANTED_WITHOUT", "torch")
    assert replay(path).fails, str(found)
    monkeypatch.delenv("PLANTED")
    is_in_graph = fault.file.startswith("engine/exporter")  # that in the capsule is what it wrote
    if is_in_graph or "precision" not in fault.config:  # what rounding weights does may be half of the error
        assert replay(path).fails == is_in_graph


def test_the_call_that_fails_is_left_with_small_sizes_and_plain_values(minified):
    found, _path = minified["error"]
    nodes, sizes, forms = found.case.to_json()
    assert (nodes, sizes) == (["cumsum"], [(5, 1), (24, 1)])
    assert forms == {"add_3": "ones"}
    assert found.calls == (1, 21)
    assert found.failure == "KeyError: 'cumsum'"
    assert "cumsum" not in str(found.passing)


def test_sizes_are_cut_as_far_as_it_fails(minified):
    found, _path = minified["wrong"]
    assert dict(found.case.sizes)[24] == 3
    assert found.calls[0] == 1


def test_a_script_of_plain_torch_fails_and_the_nearest_case_does_not(minified, tmp_path):
    found, path = minified["wrong"]
    script = path.with_suffix(".repro.py")
    assert script.read_text() == found.script
    assert len(found.script.splitlines()) <= 25
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == {"capsule.json", "repro.py", "passing.py"}
        (tmp_path / "passing.py").write_bytes(archive.read("passing.py"))
    ended = [run(one) for one in (script, tmp_path / "passing.py")]
    assert [one.returncode for one in ended] == [1, 0]
    assert "Mismatched elements" in ended[0].stderr
    with pytest.raises(ProgramError, match="runs code: python repro") as refused:
        replay(path)
    messages.check(str(refused.value).replace(str(path.parent), "FOLDER"))
    assert replay(path, allow_command=True).fails


def run(path):
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, env=environment)


def test_a_command_judges_scripts(tmp_path):
    path = tmp_path / "case.capsule"
    found = minify(MODEL, (X,), Command("! grep -q softmax $SCRIPT"), capsule=path)
    assert found.calls[0] == 1
    assert "aten.softmax" in found.script
    with pytest.raises(ProgramError, match="grep -q softmax"):
        replay(path)
    assert replay(path, allow_command=True).fails


def test_a_capsule_of_other_versions_says_so(minified, tmp_path):
    _found, path = minified["error"]
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read("capsule.json"))
        script = archive.read("repro.py")
    facts["place"]["versions"] |= {"torch": "1.0", "onnxruntime": "9"}
    facts["place"]["processor"] = "another"
    rewritten = tmp_path / "other.capsule"
    with zipfile.ZipFile(rewritten, "w") as archive:
        archive.writestr("capsule.json", json.dumps(facts))
        archive.writestr("repro.py", script)
    found = replay(rewritten, allow_command=True)
    assert found.fails
    assert [one.partition(",")[0] for one in found.differences] == ["torch 1.0", "onnxruntime 9", "processor another"]
    lacking = {name: value for name, value in facts.items() if name != "kind"}
    for changed in (facts | {"format": 9}, lacking, [facts]):
        with zipfile.ZipFile(rewritten, "w") as archive:
            archive.writestr("capsule.json", json.dumps(changed))
        with pytest.raises(ProgramError, match="capsule") as refused:
            replay(rewritten)
        messages.check(str(refused.value).replace(str(tmp_path), "FOLDER"))
    for content in (b"nothing", b""):
        rewritten.write_bytes(content)
        with pytest.raises(ProgramError, match="capsule") as refused:
            replay(rewritten)
        messages.check(str(refused.value).replace(str(tmp_path), "FOLDER"))


@pytest.mark.parametrize(
    "changed",
    [
        {"command": {"line": "touch $SCRIPT.ran", "pattern": None}},
        {"options": {"passes": ["repro.py:run"]}},
        {"options": {"variant": {"linear": "repro.py:run"}}},
    ],
)
def test_code_that_comes_with_a_graph_needs_to_be_allowed(changed, tmp_path):
    """A graph in the capsule does not open the door to a command, or to a file beside it."""
    path = tmp_path / "case.capsule"
    facts = {"format": 1, "kind": "error", "failure": "", "options": {}, "command": None, "limit": None}
    facts |= {"inputs": [], "results": [], "place": {"versions": {}, "processor": ""}, **changed}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("capsule.json", json.dumps(facts))
        archive.writestr("program.engine", "")
        archive.writestr("repro.py", "")
    with pytest.raises(ProgramError, match="runs code"):
        replay(path)


@pytest.mark.parametrize(("fault", "kind"), [("", "wrong"), ("error", "crash"), ("wrong", "nan")])
def test_what_does_not_fail_so_is_said(fault, kind):
    with pytest.raises(ComparisonError, match="it does not fail") as refused:
        minify(MODEL, (X,), kind, candidate=make_subject(fault))
    messages.check(str(refused.value))


def test_another_kind_of_failure_is_refused():
    with pytest.raises(ConfigError, match="expected wrong, nan") as refused:
        minify(MODEL, (X,), "slow")
    messages.check(str(refused.value))
    with pytest.raises(ConfigError, match="recipe") as refused:
        minify(MODEL, (X,), candidate=engine.Config(recipe={"*": "bf16"}))
    messages.check(str(refused.value))
