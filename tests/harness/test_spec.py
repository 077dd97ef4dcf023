"""Suite files: what is accepted, what each mistake is told, and the ids of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suites.backends import versions
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case, split_labels
from suites.harness.declare.only import Only
from suites.harness.errors import UsageError
from suites.harness.run import plan
from tests import messages
from tests.harness.commands import call

GOOD = """
name = "x"
backends = ["eager", "onnxruntime"]
threads = [1, 2]
[[models]]
name = "transformer"
shape = { batch = [1, 2], sequence = 16 }
options = { attention = ["sdpa", "manual"] }
"""


def test_a_sweep_is_every_combination_once():
    ids = [case.id for case, _refs in spec.parse(GOOD, "x").cases()]
    assert len(ids) == len(set(ids)) == 2 * 2 * 2
    assert ids[0] == "transformer/b1_s16/t1/fp32/attention=sdpa"


def test_a_case_given_twice_runs_once():
    again = GOOD + '[[models]]\nname = "transformer"\nshape = { sequence = 16 }\noptions = { attention = "sdpa" }\n'
    assert len(list(spec.parse(again, "x").cases())) == 8


def test_the_list_of_suites_has_the_threads_and_backends_of_every_case(capsys):
    status, out, _ = call(capsys, "list", "suites", "--json")
    assert status == 0
    listed = {row["name"]: row for row in json.loads(out)}
    assert set(listed) == set(spec.shipped())
    for name, path in spec.shipped().items():
        suite = spec.load(path)
        cases = list(suite.cases())
        assert listed[name]["cases"] == len(cases)
        assert listed[name]["threads"] == sorted({case.threads for case, _refs in cases})
        labels = {ref.label for _case, refs in cases for ref in refs}
        assert {*listed[name]["backends"], suite.baseline} == {*labels, suite.baseline}
    assert listed["counts"]["threads"] == [1, 2]  # one of its models has threads of its own
    assert "onnxruntime[tool=qwen3]" in listed["onnxruntime"]["backends"]  # as one of its models has backends


MAKE = "def make():\n    return None\n"


@pytest.fixture
def folders(tmp_path):
    """Two folders with a file of one name and different contents."""
    for name, width in (("one", 4), ("other", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"WIDTH = {width}\n{MAKE}")
    return tmp_path


def test_two_files_that_records_would_not_tell_apart_are_refused(folders):
    one, other = (f"{folders}/{name}/mine.py:{{}}" for name in ("one", "other"))
    models = "".join(f'[[models]]\nname = "{path.format("make")}"\n' for path in (one, other))
    both = spec.parse(f'name = "x"\nbackends = ["eager"]\n{models}', "x")
    with messages.raises(UsageError):
        list(both.cases())
    for name in ("one", "other"):
        with (folders / name / "mine.py").open("a") as file:
            file.write("from suites.backends.eager import Eager as Mine\n")
    backends = f'backends = ["{one.format("Mine")}", "{other.format("Mine")}"]'
    both = spec.parse(f'name = "x"\n{backends}\n[[models]]\nname = "mlp"\n', "x")
    with messages.raises(UsageError):
        list(both.cases())


def test_a_plan_with_another_file_of_the_user_is_another_plan(folders):
    text = f'name = "x"\nbackends = ["eager"]\n[[models]]\nname = "{folders}/one/mine.py:make"\n'
    before = plan.make(spec.parse(text, "x")).digest
    assert plan.make(spec.parse(text, "x")).digest == before
    (folders / "one" / "mine.py").write_text(f"WIDTH = 5\n{MAKE}")
    after = plan.make(spec.parse(text, "x"))
    assert after.digest != before
    assert list(after.to_dict()["files"]) == ["mine.py"], "its name, and no folder"
    assert "files" not in plan.make(spec.parse(GOOD, "x")).to_dict()


def test_what_memory_cannot_hold_at_once_takes_turns_in_parts():
    text = """
name = "large"
backends = ["torch_compile", "onnxruntime", "openvino", "engine"]
[[models]]
name = "mlp"
together = 5
[[models]]
name = "transformer"
"""
    found = plan.make(spec.parse(text, "large.toml"))
    (large, refs), _ = found.cases
    needed = ["eager", "eager#2", "engine"]
    assert found.parts == {large.id: [[*needed, "torch_compile", "onnxruntime"], [*needed, "openvino"]]}
    assert found.workers(large, refs) == (5 + 4) * 2
    alone = plan.make(spec.parse(text, "large.toml"), backends=["onnxruntime", "engine"])
    assert alone.parts == {}, "there is room for all"


def test_another_version_takes_turns_with_the_engine_in_one_part(monkeypatch):
    other = versions.Version("engine@0123456789ab", Path("python"), ("/",), {})
    monkeypatch.setitem(versions._named, other.name, other)
    text = f"""
name = "large"
backends = ["engine", "{other.name}", "onnxruntime", "openvino"]
[[models]]
name = "mlp"
together = 4
"""
    (parts,) = plan.make(spec.parse(text, "large.toml")).parts.values()
    needed = ["eager", "eager#2", "engine"]
    assert parts == [[*needed, other.name], [*needed, "onnxruntime"], [*needed, "openvino"]]


def test_the_id_of_a_case_is_its_grammar():
    case = Case("bert", {"batch": 1, "sequence": 128}, 2, "fp32", {"attention": "eager"}, {"disable": "fuse_gelu"})
    assert case.id == "bert/b1_s128/t2/fp32/attention=eager/disable=fuse_gelu"
    assert Case(**case.to_dict()) == case


def test_a_users_model_does_not_put_its_folder_into_the_id():
    assert Case("/home/someone/net.py:make", {}).id == "net.py:make/default/t1/fp32"


@pytest.mark.parametrize("label", ["eager", "eager#2", "engine[disable=fuse_gelu,planner=none]", "engine[a=b]#3"])
def test_a_label_is_read_as_it_is_written(label):
    assert BackendRef.parse(label).label == label


def test_commas_in_brackets_do_not_split_labels():
    assert split_labels("eager, engine[a=1,b=2],onnxruntime") == ["eager", "engine[a=1,b=2]", "onnxruntime"]


@pytest.mark.parametrize(
    "change",
    [
        ("backends =", "bakends ="),
        ('"onnxruntime"', '"onnxruntim"'),
        ('"transformer"', '"transfomer"'),
        ("shape =", "sizes ="),
        ("sequence =", "sequense ="),
        ("attention =", "atention ="),
        ("attention =", "batch = 1, attention ="),
        ('"onnxruntime"]', '"eager#2"]'),
        ("[1, 2], seq", "[], seq"),
        ('["eager", "onnxruntime"]', "[]"),
        ("[1, 2], seq", "[1, 1], seq"),
        ('"sdpa", "manual"', '"sdpa", "sdpa"'),
        ('["eager", "onnxruntime"]', '["eager", "eager"]'),
        ("threads = [1, 2]", "threads = [1, 1]"),
        ("threads = [1, 2]", 'precision = ["fp32", "fp32"]'),
        ("[[models]]", "[[models]]\nswitches = [{}, {}]"),
        ("[1, 2], seq", "[0], seq"),
        ('"sdpa", "manual"', '"magic"'),
        ("threads = [1, 2]", "threads = [0]"),
        ("threads = [1, 2]", 'generation_budget_s = "5"'),
        ("threads = [1, 2]", "generation_budget_s = true"),
        ("threads = [1, 2]", "worker_s = inf"),
        ("threads = [1, 2]", "same_within = '0.1'"),
        ("threads = [1, 2]", "samples_per_round = true"),
        ("threads = [1, 2]", "samples_per_round = 0"),
        ("threads = [1, 2]", "timeouts = { load = inf }"),
        ("threads = [1, 2]", "generations = 1"),
        ("threads = [1, 2]", 'precision = "fp8"'),
        ("threads = [1, 2]", "timeouts = { lod = 3 }"),
        ("threads = [1, 2]", 'baseline = "eagr"'),
        ('name = "x"', ""),
        ("[[models]]", "[[models]]\nswitches = [{ disabel = 'x' }]"),
    ],
)
def test_a_mistake_is_told_with_file_key_and_nearest_name(change):
    with messages.raises(UsageError):
        spec.parse(GOOD.replace(*change), "bad.toml")


def test_malformed_toml_names_the_line():
    with pytest.raises(UsageError, match="line 3"):
        spec.parse('name = "x"\nbackends = ["eager"]\n[[models]\n', "bad.toml")


def test_every_mistake_is_told_at_once():
    with messages.raises(UsageError):
        spec.parse(GOOD.replace("transformer", "transfomer").replace("onnxruntime", "onnx"), "bad.toml")


def test_an_unknown_suite_gets_the_nearest_name():
    with messages.raises(UsageError):
        spec.find("transfomer")


def test_a_suite_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path):
    (tmp_path / "d.toml").mkdir()
    for name in (str(tmp_path / "d.toml"), "nowhere/mine.toml"):
        with messages.raises(UsageError):
            spec.load(spec.find(name))


FIELDS = {"model": "bert", "threads": 2, "batch": 1}
NAMES = {*FIELDS, "sequence"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("threads == 2", True),
        ("model == 'bert' and not threads in (1, 3)", True),
        ("1 < threads <= 2 or batch == 7", True),
        ("batch > -1", True),
        ("sequence < 100", False),
        ("model != 'bert'", False),
    ],
)
def test_only_compares_fields(text, expected):
    assert Only(text, NAMES)(FIELDS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "threds == 1",
        "threads == ",
        "threads = 1",
        "__import__('os').system('true')",
        "model.upper == 'x'",
        "model < 3",
        "-model == 3",
    ],
)
def test_only_refuses_what_it_does_not_know(text):
    with messages.raises(UsageError):
        Only(text, NAMES)(FIELDS)


def test_the_baseline_stays_when_only_names_another_backend():
    made = plan.make(spec.parse(GOOD, "x"), "backend == 'onnxruntime' and threads == 1 and batch == 1")
    assert len(made.cases) == 2
    assert [ref.label for ref in made.cases[0][1]] == ["eager", "eager#2", "onnxruntime"]


def test_only_that_leaves_nothing_is_told():
    with messages.raises(UsageError):
        plan.make(spec.parse(GOOD, "x"), "threads == 7")


def test_backends_of_the_command_line_replace_the_suites():
    made = plan.make(spec.parse(GOOD, "x"), None, ["torch_compile"])
    assert [ref.label for ref in made.cases[0][1]] == ["eager", "eager#2", "torch_compile"]
    with messages.raises(UsageError):
        plan.make(spec.parse(GOOD, "x"), None, ["torch_compil"])


def test_plans_that_differ_have_other_digests():
    suite = spec.parse(GOOD, "x")
    assert plan.make(suite).digest == plan.make(suite).digest
    assert plan.make(suite).digest != plan.make(suite, "threads == 1").digest
    assert (
        plan.make(suite).digest
        != plan.make(spec.parse(GOOD.replace('name = "x"', 'name = "x"\nrounds = 9'), "x")).digest
    )
