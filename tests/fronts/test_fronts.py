"""The pytest and asv fronts: they find the declared cases, stay light, and refuse to time a wrong result."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from suites import fronts
from suites.harness.declare.case import BackendRef, Case

TINY = """
name = "tiny"
backends = ["eager"]

[[models]]
name = "mlp"
"""


@pytest.fixture
def tiny_suite(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def pytest_front(root, *arguments):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "suites/pytest_benchmarks", *arguments]
    # This process may be a worker of xdist, under which pytest-benchmark refuses to time; the one started here is not.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_XDIST")}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)


def test_the_quick_suite_is_the_default_and_the_environment_may_say_otherwise(monkeypatch):
    monkeypatch.delenv(fronts.SUITE_VARIABLE, raising=False)
    assert fronts.suite_name() == "quick"
    monkeypatch.setenv(fronts.SUITE_VARIABLE, "bert")
    assert fronts.suite_name() == "bert"
    assert fronts.suite_name("mlp") == "mlp"


def test_every_case_meets_every_backend():
    found = fronts.pairs("quick")
    assert len(found) == len(set(map(str, found)))
    assert {ref.label for _case, ref in found} == {"eager", "torch_compile", "onnxruntime", "engine"}
    assert all(case.threads == 1 for case, _ref in found)


def test_a_checked_job_can_be_timed(tmp_path):
    case = Case("mlp", {"batch": 2})
    checked = fronts.checked(case, BackendRef("eager"), tmp_path)
    assert 0 < checked.error < 1e-5
    assert checked.seconds["import_s"] >= 0
    checked.job.warm()
    assert len(checked.job.sample(3)["seconds"]) == 3


def test_a_wrong_result_is_not_timed(tmp_path):
    (tmp_path / "wrong.py").write_text(
        "from suites.backends.base import Backend, Prepared\n"
        "class Wrong(Backend):\n"
        "    def load(self): pass\n"
        "    def prepare(self, model, inputs): return Prepared(lambda x: model(x) + 1)\n"
    )
    ref = BackendRef(f"{tmp_path / 'wrong.py'}:Wrong")
    with pytest.raises(fronts.WrongResult, match="relative error"):
        fronts.checked(Case("mlp", {"batch": 2}), ref, tmp_path)


def test_a_backend_that_writes_to_its_inputs_is_not_timed(tmp_path):
    (tmp_path / "rude.py").write_text(
        "from suites.backends.base import Backend, Prepared\n"
        "class Rude(Backend):\n"
        "    def load(self): pass\n"
        "    def prepare(self, model, inputs):\n"
        "        return Prepared(lambda x: (model(x.clone()), x.zero_())[0])\n"
    )
    ref = BackendRef(f"{tmp_path / 'rude.py'}:Rude")
    with pytest.raises(fronts.WrongResult, match="wrote to its inputs"):
        fronts.checked(Case("mlp", {"batch": 2}), ref, tmp_path)


def test_the_pytest_front_collects_a_benchmark_a_case_and_backend(root):
    found = pytest_front(root, "--collect-only", "-q")
    assert found.returncode == 0, found.stdout + found.stderr
    names = [line for line in found.stdout.splitlines() if "::test_latency[" in line]
    assert len(names) == len(fronts.pairs("quick"))


def test_the_pytest_front_times_a_verified_case(root, tiny_suite, tmp_path):
    out = tmp_path / "out.json"
    found = pytest_front(root, "--benchmark-only", "--suite", str(tiny_suite), f"--benchmark-json={out}")
    assert found.returncode == 0, found.stdout + found.stderr
    (one,) = json.loads(out.read_text())["benchmarks"]
    assert (one["group"], one["name"]) == ("mlp/b1/t1/fp32", "eager")
    assert one["stats"]["median"] > 0
    assert one["extra_info"]["error"] < 1e-5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "quik"], "unknown suite 'quik'; did you mean 'quick'"),
        (["--backends", "eagre"], "--backends: the suite has no eagre"),
    ],
)
def test_the_pytest_front_names_what_it_does_not_know(root, arguments, message):
    found = pytest_front(root, "--collect-only", *arguments)
    assert found.returncode != 0
    assert message in found.stdout + found.stderr


def test_asv_finds_the_benchmarks_and_imports_nothing_heavy(root, tmp_path):
    out = tmp_path / "benchmarks.json"
    code = (
        "import sys; from asv_runner.discovery import _discover;"
        f"_discover(['suites/asv_benchmarks', {str(out)!r}]);"
        "print(*(m for m in ('torch', 'onnxruntime', 'transformers') if m in sys.modules))"
    )
    environment = {k: v for k, v in os.environ.items() if k != fronts.SUITE_VARIABLE}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == []
    benchmarks = {one["name"]: one for one in json.loads(out.read_text())}
    assert set(benchmarks) == {
        "cases.Latency.track_latency",
        "cases.Engine.track_nodes",
        "cases.Engine.track_arena_bytes",
        "cases.Engine.track_compile",
    }
    assert {one["unit"] for one in benchmarks.values()} == {"seconds", "nodes", "bytes"}
    assert all(one["version"] == "1" for one in benchmarks.values())
    assert len(benchmarks["cases.Latency.track_latency"]["params"][1]) == 4
