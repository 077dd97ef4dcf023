"""What a dry run refuses or says, because the run would fail: from what a user's files define, and the registry."""

from __future__ import annotations

import json

import pytest

from suites import backends
from suites.harness.declare.case import BackendRef
from suites.harness.errors import UsageError
from suites.harness.record.reasons import name_error
from suites.harness.run import worker
from tests import messages
from tests.harness.commands import call

GOOD = """
from suites.backends.base import Backend, Prepared

class Good(Backend):
    def load(self): pass
    def prepare(self, model, inputs): return Prepared(model)

class Derived(Good): pass
class Half(Backend):
    def load(self): pass
class Both(Half):
    prepare = Good.prepare
class Plain: pass
Alias = Good
def make(): return Good
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dry_run(capsys, *arguments):
    return call(capsys, "run", *arguments, "--dry-run", "--results", "results")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Goood", "'Goood'; did you mean 'Good'? Known: Alias, Both, Derived, Good, Half"),
        ("Plain", "'Plain'. Known: Alias, Both, Derived, Good, Half"),
        ("make", "'make'. Known: Alias, Both, Derived, Good, Half"),
    ],
)  # fmt: skip
def test_a_class_that_is_no_backend_is_refused_before_the_run(name, told, folder, capsys):
    label = f"mine.py:{name}"
    told = f"mine.py: unknown class derived from suites.backends.base.Backend {told}"
    assert dry_run(capsys, "mlp", "--backends", label) == (2, "", f"enginebench: {told}\n")
    if name != "Goood":
        with messages.raises(UsageError):
            backends.load(BackendRef(label))


@pytest.mark.parametrize("name", ["Both", "Alias"])
def test_a_class_that_is_a_backend_is_planned_and_loaded(name, folder, capsys):
    assert dry_run(capsys, "mlp", "--backends", f"mine.py:{name}")[0] == 0
    assert issubclass(backends.load(BackendRef(f"mine.py:{name}")), backends.Backend)


def test_a_file_that_cannot_be_imported_is_refused_before_the_run(folder, capsys):
    (folder / "mine.py").write_text("import nowhere_at_all.part\n")
    told = "mine.py imports nowhere_at_all, which is not installed (mine.py, line 1)\n"
    for arguments, where in (
        (("mlp", "--backends", "mine.py:Good"), ""),
        (("mine.py:make",), "model 'mine.py:make': "),
    ):
        assert dry_run(capsys, *arguments) == (2, "", f"enginebench: {where}{told}")
    assert not (folder / "results").exists()


def test_a_row_says_a_mistake_of_the_user_without_the_class_of_the_exception():
    def handle(_command, _arguments):
        raise UsageError("backend 'x': expected y")

    assert worker._answer(handle, {"command": "load"}, name_error) == {"error": "backend 'x': expected y"}


@pytest.mark.parametrize("asked", ["int8_static", "fp32,int8_static"])
def test_a_precision_that_no_backend_can_do_is_told(asked, capsys):
    status, _out, err = dry_run(capsys, "mlp", "--precision", asked, "--threads", "1")
    assert status == 0
    assert err.startswith("cannot run here: mlp/b1/t1/int8_static: no backend can (eager: int8_static needs scales")


def test_cases_that_no_backend_can_run_are_told_once(capsys):
    only = ["--backends", "onnxruntime", "--baseline", "onnxruntime", "--set", "batch=1,2,4", "--threads", "1"]
    status, _, err = dry_run(capsys, "mlp", "--precision", "bf16", *only)
    assert status == 0
    told = "cannot run here: mlp/b1/t1/bf16, mlp/b2/t1/bf16, mlp/b4/t1/bf16: no backend can (onnxruntime: "
    assert err.startswith(told)
    assert err.count("\n") == 1
    assert dry_run(capsys, "mlp", *only)[2] == ""


def test_a_dry_run_of_an_ablation_counts_the_pairs_that_are_asked_for(capsys, tmp_path):
    asked = ["ablate", "mlp", "--switches", "fuse_gelu,fuse_bias,threads", "--dry-run", "--results", str(tmp_path)]
    alone, pairs = (call(capsys, *asked, *more)[1] for more in ([], ["--pairs", "2"]))
    assert "pair" not in alone
    assert "3 switches, at most 1 pair a case, " in pairs
    found = [json.loads(call(capsys, *asked, *more, "--json")[1]) for more in ([], ["--pairs", "2"], ["--pairs", "3"])]
    assert [one["pairs_at_most"] for one in found] == [0, 1, 3]
    seconds = [one["estimate_s_at_most"] for one in found]
    assert seconds == sorted(set(seconds)), "each pair takes time"
