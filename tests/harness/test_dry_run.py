"""What a dry run refuses or says, because the run would fail: from the source of a user's files, and the registry."""

from __future__ import annotations

import json
import sys

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
class Part(Half): pass
class Plain: pass
Alias = Good
value = 3
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
        ("Goood", "mine.py: unknown class 'Goood'; did you mean 'Good'? Known: Both, Derived, Good, Half, Part, Plain"),
        ("Plain", "Plain of mine.py is no class derived from suites.backends.base.Backend"),
        ("value", "value of mine.py is no class derived from suites.backends.base.Backend"),
        ("make", "make of mine.py is no class derived from suites.backends.base.Backend"),
        ("Half", "Half of mine.py has no prepare, which every backend has"),
        ("Part", "Part of mine.py has no prepare, which every backend has"),
    ],
)  # fmt: skip
def test_a_class_that_is_no_backend_is_refused_before_the_run(name, told, folder, capsys):
    label = f"mine.py:{name}"
    assert dry_run(capsys, "mlp", "--backends", label) == (2, "", f"enginebench: backend {label!r}: {told}\n")
    if name != "Goood":
        with messages.raises(UsageError):
            backends.load(BackendRef(label))


@pytest.mark.parametrize("name", ["Good", "Derived", "Both", "Alias"])
def test_a_class_that_is_a_backend_is_planned_and_loaded(name, folder, capsys):
    assert dry_run(capsys, "mlp", "--backends", f"mine.py:{name}")[0] == 0
    assert issubclass(backends.load(BackendRef(f"mine.py:{name}")), backends.Backend)


ATTACHED = """
from suites.backends.base import Backend, Prepared

def prepare(self, model, inputs): return Prepared(model)
def attach(found):
    found.prepare = prepare
    return found
class Mine(Backend):
    def load(self): pass
"""


@pytest.mark.parametrize(
    "source",
    [
        f"{ATTACHED}Mine.prepare = prepare\n",
        f"{ATTACHED}setattr(Mine, 'prepare', prepare)\n",
        f"{ATTACHED}attach(Mine)\n",
        f"{ATTACHED}attach(found=Mine)\n",
        ATTACHED.replace("class Mine", "@attach\nclass Mine"),
        ATTACHED.replace("class Mine", "class Half") + "Half.prepare = prepare\nclass Mine(Half): pass\n",
    ],
    ids=["assigned", "setattr", "function", "keyword", "decorator", "base"],
)
def test_a_method_may_be_attached_to_a_class_after_its_definition(source, folder):
    (folder / "mine.py").write_text(source)
    ref = BackendRef("mine.py:Mine")
    backends.check(ref)
    backends.load(ref)(1, {}).load()


@pytest.mark.parametrize(
    "source",
    [
        f"from suites.backends.bass import Other\n{GOOD}\nMine = Good",
        f"import suites.bakends.base\n{GOOD}\nMine = Good",
        "class Mine(Backend): pass",
        f"{GOOD}\nclass Mine(Good): pass\ndel Mine",
        f"{GOOD}\nclass Mine(Good):\n    def __init__(self, threads): self.threads = threads",
        f"{GOOD}\nclass Base(Good):\n    def __init__(self, threads, *, mode): pass\nclass Mine(Base): pass",
    ],
    ids=["module", "package", "base", "deleted", "init", "inherited"],
)
def test_a_file_that_is_sure_to_fail_is_refused_before_the_run(source, folder):
    (folder / "mine.py").write_text(f"{source}\n")
    ref = BackendRef("mine.py:Mine")
    with messages.raises(UsageError):
        backends.check(ref)
    with pytest.raises((UsageError, ImportError, NameError, TypeError)):
        backends.load(ref)(1, {"x": "1"})


@pytest.mark.parametrize(
    "source",
    [
        f"{GOOD}del Backend, Half",
        f"{GOOD}del Good\nfrom mine_too import Good",
        f"{GOOD}if value > 3:\n    del Good",
        f"{GOOD}del Good\ndef __getattr__(name): return Derived",
        f"{GOOD}def __init__(self, *given): self.options = dict(given[1])\nGood.__init__ = __init__",
        GOOD.replace("(Backend):", "(Backend):\n    def __init__(self, threads, options, more=1): pass", 1),
        GOOD.replace("(Backend):", "(Backend):\n    def __init__(self, *given): pass", 1),
        f"import builtins\nbuiltins.Base = object\nfrom mine_too import *\nclass Other(Base): pass\n{GOOD}",
    ],
    ids=["base_deleted", "bound_anew", "conditional", "getattr", "init_assigned", "default", "star", "import_star"],
)
def test_a_file_that_may_succeed_is_not_refused(source, folder, monkeypatch):
    (folder / "mine_too.py").write_text(GOOD)
    (folder / "mine.py").write_text(f"{source}\n")
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder is added
    ref = BackendRef("mine.py:Good")
    backends.check(ref)
    backends.load(ref)(1, {"x": "1"})


def test_a_file_may_import_a_module_of_its_folder(tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "bases_of_dry_run.py").write_text(GOOD)
    (own / "mine.py").write_text("from bases_of_dry_run import Good\n\nclass Mine(Good): pass\n")
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder is added
    ref = BackendRef.parse(f"{own / 'mine.py'}:Mine")
    backends.check(ref)
    assert backends.load(ref).__name__ == "Mine"


def test_a_switch_that_a_label_cannot_set_is_no_advice(capsys):
    status, _out, err = dry_run(capsys, "mlp", "--backends", "engine[treads=2],eager")
    assert status == 2
    assert "unknown switch 'treads'" in err
    assert "threads" not in err


def test_a_base_of_another_file_may_have_what_a_class_lacks(folder, capsys):
    (folder / "mine.py").write_text("from mine_too import Backend\n\nclass Mine(Backend):\n    pass\n")
    (folder / "mine_too.py").write_text(GOOD + "Backend = Good\n")
    assert dry_run(capsys, "mlp", "--backends", "mine.py:Mine")[0] == 0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("class Mine(:\n", "mine.py is not valid Python: SyntaxError: "),
        (f"import nowhere_at_all.part\n{GOOD}", "mine.py imports nowhere_at_all, which is not installed\n"),
        (f"from nowhere_at_all import x\n{GOOD}", "mine.py imports nowhere_at_all, which is not installed\n"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused_before_the_run(source, told, folder, capsys):
    (folder / "mine.py").write_text(source)
    status, out, err = dry_run(capsys, "mlp", "--backends", "mine.py:Good")
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: backend 'mine.py:Good': {told}")


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import nowhere_at_all\nexcept ImportError:\n    pass\n",
        "import sys\nsys.path.append('elsewhere')\nimport nowhere_at_all\n",
        "import neighbour\n",
        "def later():\n    import nowhere_at_all\n",
    ],
    ids=["tried", "path", "neighbour", "later"],
)
def test_a_module_that_may_be_found_when_the_file_is_executed_is_not_refused(source, folder, capsys):
    (folder / "neighbour.py").write_text("")
    (folder / "mine.py").write_text(source + GOOD)
    assert dry_run(capsys, "mlp", "--backends", "mine.py:Good")[0] == 0


def test_a_model_of_a_file_that_cannot_be_imported_is_refused_before_the_run(folder, capsys):
    (folder / "net.py").write_text("import torch\nimport nowhere_at_all\n\ndef make(): return None\n")
    told = "enginebench: model 'net.py:make': net.py imports nowhere_at_all, which is not installed\n"
    assert dry_run(capsys, "net.py:make") == (2, "", told)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("async def make(): return None\n", "make is an async function; expected a function that returns (torch.nn."),
        ("def make(): return None\ndef other(): return None\ndel make\n", "unknown function 'make'. Known: other\n"),
    ],
    ids=["async", "deleted"],
)
def test_a_factory_that_is_sure_to_fail_is_refused_before_the_run(source, told, folder, capsys):
    (folder / "net.py").write_text(source)
    status, out, err = dry_run(capsys, "net.py:make")
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: model 'net.py:make': net.py: {told}")


def test_a_row_says_a_mistake_of_the_user_without_the_class_of_the_exception():
    def handle(_command, _arguments):
        raise UsageError("backend 'x': expected y")

    assert worker._answer(handle, {"command": "load"}, name_error) == {"error": "backend 'x': expected y"}


@pytest.mark.parametrize("asked", ["int8_static", "fp32,int8_static"])
def test_a_precision_that_no_backend_can_do_is_refused(asked, capsys):
    status, out, err = dry_run(capsys, "mlp", "--precision", asked)
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: --precision {asked}: int8_static needs scales of activations")


def test_cases_that_no_backend_can_run_are_told_once(capsys):
    only = ["--backends", "onnxruntime", "--baseline", "onnxruntime", "--size", "batch=1,2,4", "--threads", "1"]
    status, _, err = dry_run(capsys, "mlp", "--precision", "bf16", *only)
    assert status == 0
    told = "mlp/b1/t1/bf16 and 2 further cases cannot run here, because no backend can (onnxruntime: "
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
