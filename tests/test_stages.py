"""A stage of the check runs again when a file that it reads has changed, and only then."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests import stages

SHORT = {stage.name for stage in stages.list_stages(is_long=False)}


@pytest.fixture(scope="module")
def copy(root, tmp_path_factory):
    """A copy of all files that git lists and stages read."""
    folder = tmp_path_factory.mktemp("stages")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (root / name).is_file() and not name.startswith("results/runs/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)
    return folder


def read_inputs(folder):
    return {stage.name: {str(path) for path in stages.list_inputs(stage, folder)} for stage in stages.STAGES}


CHANGES = {
    "csrc/kernels/vector/micro.h": {"sanitize", "arm64", "kernels", "counts"},  # a header that kernels include
    "csrc/kernels/avx2/isa.h": {"sanitize", "arm64", "kernels", "counts"},  # included by an option of the compiler
    "csrc/kernels.inc": {"sanitize", "arm64", "kernels", "counts"},
    "tests/kernels/case.h": {"sanitize", "arm64", "kernels"},
    "engine/targets/triton/kernels/products.py": {"triton", "counts"},  # loaded by name
    "engine/targets/triton/kernels/_tiles.py": {"triton", "counts"},
    "engine/ops/table.py": {"kernels", "triton", "counts", "site"},  # imported by modules that the kernels import
    "engine/passes/fuse_gelu.py": {"counts"},
    "suites/harness/judge/gate.py": {"counts", "site"},
    "suites/site/pages/models.py": {"counts", "site"},
    "suites/site/assets/site.css": {"site"},
    "tests/site/test_reading.py": {"site"},
    "suites/counts.toml": {"counts"},
    "results/baselines.toml": {"counts", "site"},
    "tests/targets/on_triton/cases/rope.py": {"triton"},
    "docs/add-a-kernel.md": {"kernels"},
    "tests/harness/test_stats.py": set(),
    "README.md": set(),
    "Makefile": SHORT,
    "pyproject.toml": {"kernels", "triton", "counts", "site"},
}


def test_a_changed_file_runs_the_stages_that_read_it(copy):
    inputs = read_inputs(copy)
    assert all((copy / name).is_file() for name in CHANGES)
    assert {name: {stage for stage in SHORT if name in inputs[stage]} for name in CHANGES} == CHANGES


def test_a_new_header_runs_the_stages_that_include_it(copy):
    stage = stages.STAGES[0]
    before = stages.digest_inputs(stage, copy)
    source = copy / "tests/kernels/pool.c"
    (copy / "tests/kernels/new.h").write_text("#define NEW 1\n")
    assert stages.digest_inputs(stage, copy) == before
    source.write_text('#include "new.h"\n' + source.read_text())
    included = stages.digest_inputs(stage, copy)
    (copy / "tests/kernels/new.h").write_text("#define NEW 2\n")
    assert len({before, included, stages.digest_inputs(stage, copy)}) == 3


def test_an_environment_variable_or_another_package_runs_a_stage_again(monkeypatch, copy):
    stage = stages.STAGES[0]
    before = stages.digest_inputs(stage, copy)
    monkeypatch.setenv("UNREAD", "1")
    assert stages.digest_inputs(stage, copy) == before
    monkeypatch.setenv("CFLAGS", "-O0")
    changed = stages.digest_inputs(stage, copy)
    monkeypatch.setattr(stages.importlib.metadata, "distributions", list)
    assert len({before, changed, stages.digest_inputs(stage, copy)}) == 3


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs the command with one stage of a command of its own; returns what it prints, and whether the stage ran."""
    mark = tmp_path / "ran"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_ALL", raising=False)
    monkeypatch.setattr(stages, "describe_surroundings", lambda stage: [stage.command])

    def go(*options, command=f"touch {mark}", code=0):
        monkeypatch.setattr(stages, "STAGES", (stages.Stage("one", command),))
        monkeypatch.setattr("sys.argv", ["stages", "one", *options])
        mark.unlink(missing_ok=True)
        if code:
            with pytest.raises(SystemExit):
                stages.main()
        else:
            stages.main()
        return capsys.readouterr().out, mark.exists()

    return go


def test_a_stage_that_has_passed_is_skipped_with_date_and_commit_of_its_stamp(run, monkeypatch):
    assert run()[1]
    text, ran = run()
    stamp = json.loads(stages.find_stamp(stages.STAGES[0]).read_text())
    assert not ran
    assert f"one: skipped, passed with the same inputs on {stamp['date']} at {stamp['commit']}" in text
    assert run("--all")[1]
    monkeypatch.setenv("CI_ALL", "1")
    assert run()[1]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"digest": "0"}', "null"])
def test_a_damaged_or_foreign_stamp_is_none(run, damage):
    run()
    stages.find_stamp(stages.STAGES[0]).write_text(damage)
    assert run()[1]


def test_a_stage_that_fails_leaves_no_stamp_and_fails_the_command(run):
    assert "== one: false" in run(command="false", code=1)[0]
    assert not stages.find_stamp(stages.STAGES[0]).exists()
