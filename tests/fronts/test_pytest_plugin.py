"""The pytest plugin in this checkout and in a user's project: isolated, verified, and the samples are the worker's."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib

import pytest

from suites import fronts

TINY = """
name = "tiny"
backends = ["eager", "engine"]
rounds = 3

[[models]]
name = "mlp"
"""


def run_pytest(folder, *arguments, **variables):
    """Run pytest in a process of its own, which is no worker of xdist: there pytest-benchmark refuses to time."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_") and k != fronts.SUITE_VARIABLE}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={**own, **variables})


def said(ended):
    return ended.stdout + ended.stderr


# --- this checkout ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def stored(root, tiny_suite):
    """A bare run of one backend, its record and the folder of its storage."""
    out, storage = tiny_suite.with_name("out.json"), tiny_suite.with_name("storage")
    ended = run_pytest(
        root,
        "--benchmark-only",
        f"--enginebench-suite={tiny_suite}",
        *("-k", "engine"),
        f"--benchmark-json={out}",
        f"--benchmark-storage={storage}",
        "--benchmark-autosave",
    )
    assert ended.returncode == 0, said(ended)
    return ended, out.read_text(), storage


def test_bare_pytest_runs_the_declared_cases_and_k_selects_among_them(stored):
    ended, text, _storage = stored
    assert "1 passed, 1 deselected" in ended.stdout
    (one,) = json.loads(text)["benchmarks"]
    assert (one["group"], one["name"]) == ("mlp/b1/t1/fp32", "engine")
    assert one["stats"]["median"] > 0
    assert one["stats"]["rounds"] == 9
    assert one["options"]["timer"] == "enginebench_worker"


def test_the_record_has_plain_values_only(stored):
    _ended, text, _storage = stored
    assert "UNSERIALIZABLE" not in text
    (one,) = json.loads(text)["benchmarks"]
    assert one["params"] == {"enginebench_case_id": "mlp/b1/t1/fp32", "enginebench_backend": "engine"}
    info = one["extra_info"]
    wanted = {"model": "mlp", "case": "mlp/b1/t1/fp32", "threads": 1, "precision": "fp32", "backend": "engine"}
    assert {key: info[key] for key in wanted} == wanted
    assert info["batch"] == 1
    assert 0 < info["error"] < 1e-5
    assert set(info["phases"]) == {"import_s", "export_s", "compile_s", "first_call_s"}
    assert info["facts"]["nodes"] == 2


@pytest.mark.long
def test_a_later_run_is_compared_and_drawn(root, tiny_suite, stored):
    _ended, _text, storage = stored
    plot = tiny_suite.with_name("plot")
    ended = run_pytest(
        root,
        "--benchmark-only",
        *("-k", "engine"),
        f"--benchmark-storage={storage}",
        "--benchmark-compare",
        f"--benchmark-histogram={plot}",
        **{fronts.SUITE_VARIABLE: str(tiny_suite)},
    )
    assert ended.returncode == 0, said(ended)
    assert "engine (NOW)" in ended.stdout
    assert "engine (0001" in ended.stdout
    assert tiny_suite.with_name("plot-mlp_b1_t1_fp32.svg").read_text().startswith("<?xml")


def test_the_default_suite_has_a_benchmark_for_each_case_and_backend(root):
    ended = run_pytest(root, "--benchmark-only", "--collect-only", "-q")
    assert ended.returncode == 0, said(ended)
    names = [line for line in ended.stdout.splitlines() if "::test_latency[" in line]
    assert len(names) == len(fronts.of_suite("quick"))
    assert f"{len(names)} tests collected" in ended.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        # Bare: all of testpaths, of which one file is enough here.
        pytest.param(["--ignore-glob=tests/*/test_*.py"], marks=pytest.mark.long),
        ["--benchmark-only", "tests/fronts/test_packaging.py"],
    ],
)
def test_benchmarks_are_collected_only_where_nothing_else_is_asked_for(root, arguments):
    ended = run_pytest(root, "--collect-only", "-q", *arguments)
    assert ended.returncode == 0, said(ended)
    assert "test_latency" not in ended.stdout


@pytest.mark.long
def test_a_path_that_pytest_would_take_for_its_root_is_explained(root, tiny_suite):
    ended = run_pytest(root, "--benchmark-only", "--collect-only", "--enginebench-suite", str(tiny_suite))
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "write --enginebench-suite=PATH with the =" in ended.stderr


# --- a user's project ---------------------------------------------------------------------------------------------

MODEL = """
import os, pathlib, torch
from my_package import net

def factory():
    with pathlib.Path(__file__).with_name("processes.txt").open("a") as file:
        file.write(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}\\n")
    return net(), torch.randn(2, 16)
"""

BACKENDS = """
from suites.backends.base import Prepared
from suites.backends.eager import Eager

class Wrong(Eager):
    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call
        return Prepared(lambda x: call(x) * 1.01)

class Cheating(Eager):
    "Keeps its answers once it has been verified, and gives the last one again."
    def prepare(self, model, inputs):
        call, answers = super().prepare(model, inputs).call, []
        def cached(x):
            if len(answers) < 200:
                answers.append(call(x))
            return answers[-1]
        return Prepared(cached)

class Counted(Eager):
    "Makes the clock of its worker tell known numbers."
    def prepare(self, model, inputs):
        from suites.harness.measure.job import Job
        real, told = Job._time, []
        def tell(job, first, calls):
            real(job, first, calls)
            told.append(0.1 + len(told) * 1e-9)
            return told[-1]
        Job._time = tell
        return super().prepare(model, inputs)
"""

TESTS = """
import json, pathlib, pytest

HERE = pathlib.Path(__file__).parent

@pytest.mark.enginebench(model="mine.py:factory", backends=["eager"], threads=[1, 4096])
def test_mine(enginebench_case):
    result = enginebench_case.measure()
    assert result.error < 1e-5

@pytest.mark.benchmark(group="own group")
@pytest.mark.enginebench(model="mine.py:factory", backends="planted.py:Counted")
def test_counted(enginebench_case):
    result = enginebench_case.measure()
    (HERE / "counted.json").write_text(json.dumps(list(result.seconds)))

@pytest.mark.enginebench(model="mine.py:factory", backends=["planted.py:Wrong", "planted.py:Cheating"])
def test_planted(enginebench_case):
    enginebench_case.measure()
    (HERE / "timed").touch()
"""


FORKED = """
from suites.harness.run import session
from tests import forked

session.start_process = forked.start
"""
"""Workers are forked from one process (tests/forked.py); those of a bare run in this checkout are not."""


@pytest.fixture(scope="module")
def project(root, tmp_path_factory):
    """A project elsewhere, and an installed distribution that has the entry points of this checkout."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\npythonpath = lib\n")
    (folder / "lib").mkdir()
    (folder / "lib" / "my_package.py").write_text("import torch\n\ndef net(): return torch.nn.Linear(16, 4)\n")
    (folder / "mine.py").write_text(MODEL)
    (folder / "planted.py").write_text(BACKENDS)
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "conftest.py").write_text(FORKED)
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = folder / "site" / "copy_of_enginebench-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: copy-of-enginebench\nVersion: 1\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    return folder


@pytest.fixture(scope="module")
def outcome(root, project):
    path = os.pathsep.join((str(project / "site"), str(root)))
    ended = run_pytest(project, "-rs", f"--benchmark-json={project / 'out.json'}", PYTHONPATH=path)
    return ended, {one["fullname"]: one for one in json.loads((project / "out.json").read_text())["benchmarks"]}


def test_a_model_of_a_users_project_is_measured(outcome):
    ended, stored = outcome
    assert "2 failed, 2 passed, 1 skipped" in ended.stdout, said(ended)
    one = stored["test_mine.py::test_mine[mine.py:factory/default/t1/fp32-eager]"]
    assert one["extra_info"]["model"] == "mine.py:factory"
    assert one["stats"]["median"] > 0


def test_each_backend_has_a_process_of_its_own_and_the_reference_is_computed_once(outcome, project):
    lines = set((project / "processes.txt").read_text().splitlines())
    assert len({line.split()[0] for line in lines}) == len(lines) == 5  # four backends and one reference
    assert {line.split()[1] for line in lines} == {"1"}


def test_the_samples_that_are_stored_are_those_of_the_worker(outcome, project):
    _ended, stored = outcome
    one = stored["test_mine.py::test_counted[mine.py:factory/default/t1/fp32-planted.py:Counted]"]
    told = {0.1 + number * 1e-9 for number in range(1000)}
    assert set(one["stats"]["data"]) <= told
    # 15 rounds, in which two samples fit into a turn
    assert len(set(one["stats"]["data"])) == one["stats"]["rounds"] == 30
    assert json.loads((project / "counted.json").read_text()) == one["stats"]["data"]
    assert one["group"] == "own group"


def test_what_is_wrong_or_keeps_its_answers_fails_and_has_no_time(outcome, project):
    ended, stored = outcome
    assert "planted.py:Wrong: wrong: output 0: relative error" in ended.stdout
    assert "planted.py:Cheating: wrong: a timed call: output 0: relative error" in ended.stdout
    assert not (project / "timed").exists()
    assert not any("test_planted" in name for name in stored)
    assert "Traceback" not in said(ended)


def test_a_backend_that_cannot_run_here_is_skipped_with_the_reason(outcome):
    ended, _stored = outcome
    assert "mine.py:factory/default/t4096/fp32: eager: needs 4096 processors" in ended.stdout


@pytest.mark.long
def test_what_the_page_says_works_as_it_stands(root, tmp_path):
    text = (root / "docs/benchmark-your-project.md").read_text()
    model, test, benchmark = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_model.py").write_text(model)
    (tmp_path / "test_speed.py").write_text(test)
    (tmp_path / "my_asv.py").write_text(benchmark)
    ended = run_pytest(tmp_path, "-p", "suites.pytest_plugin", "--benchmark-only", "--enginebench-backends=eager")
    assert "1 passed" in ended.stdout, said(ended)
    found = runpy.run_path(str(tmp_path / "my_asv.py"))["MyModel"]().track_latency("engine")
    assert found["number"] == 1
    assert min(found["samples"]) > 0


# --- mistakes -----------------------------------------------------------------------------------------------------

MISTAKES = {
    "model='mlpp'": "unknown model 'mlpp'; did you mean 'mlp'",
    "model='none.py:factory'": "no such file",
    "model='mlp', backends=['eagre']": "unknown backend 'eagre'; did you mean 'eager'",
    "model='mlp', backends=['engine[threads=2]']": "or threads = N in a suite or in a marker of pytest",
    "model='mlp', threads=0": "expected at least 1, got 0",
    "model='mlp', arguments={'batsh': 2}": "did you mean 'batch'",
    "model='mlp', suite='quick'": "unexpected keyword argument 'suite'",
    "suite='quik'": "unknown suite 'quik'; did you mean 'quick'",
    "suite='none.toml'": "none.toml: No such file",
    "suite='quick', threads=2": "unexpected keyword argument 'threads'",
    "model='mlp', thread=2": "unexpected keyword argument 'thread'",
    "": "nothing to measure: use @pytest.mark.enginebench(model=",
}


def test_a_mistake_is_an_error_of_its_file_and_nothing_runs(tmp_path):
    for number, mistake in enumerate(MISTAKES):
        test = f"import pytest\n\n@pytest.mark.enginebench({mistake})\ndef test_{number}(enginebench_case): pass\n"
        (tmp_path / f"test_mistake_{number}.py").write_text(test)
    (tmp_path / "test_right.py").write_text("def test_right(): pass\n")
    ended = run_pytest(tmp_path, "-p", "suites.pytest_plugin")
    assert ended.returncode == pytest.ExitCode.INTERRUPTED
    assert f"{len(MISTAKES)} errors during collection" in ended.stdout
    parts = re.split(r"_+ ERROR collecting test_mistake_(\d+)\.py _+", ended.stdout)[1:]
    told = dict(zip(map(int, parts[::2]), parts[1::2], strict=True))
    for number, message in enumerate(MISTAKES.values()):
        assert message in told[number], told[number]


@pytest.mark.long
def test_an_unknown_backend_of_the_command_line_is_named(tmp_path):
    test = "import pytest\n\n@pytest.mark.enginebench(model='mlp')\ndef test_one(enginebench_case): pass\n"
    (tmp_path / "test_one.py").write_text(test)
    ended = run_pytest(tmp_path, "-p", "suites.pytest_plugin", "--collect-only", "--enginebench-backends=eagre")
    assert ended.returncode == pytest.ExitCode.INTERRUPTED
    assert "unknown backend 'eagre'; did you mean 'eager'" in ended.stdout
    assert "Traceback" not in said(ended)


def test_the_plugin_imports_nothing_heavy():
    heavy = "('torch', 'numpy', 'pandas', 'rich', 'pydantic', 'engine')"
    code = f"import sys, suites.pytest_plugin; print(*(name for name in {heavy} if name in sys.modules))"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []


def test_the_entry_point_has_the_name_of_its_module(root):
    """So `-p suites.pytest_plugin`, and the conftest.py of this checkout, load it once."""
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"suites.pytest_plugin": "suites.pytest_plugin"}
