"""Which runs ``--resume RUN`` continues, with which arguments, and what it says of others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from suites.cli import run as run_command
from suites.harness.declare.spec import of_model
from suites.harness.record import machine, store
from suites.harness.record.invocation import Invocation, name_file
from suites.harness.run import runner
from suites.harness.run.plan import make
from suites.harness.run.reporter import Reporter
from tests.harness import records
from tests.harness.commands import call
from tests.harness.test_command_line import SUITE


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current folder, with a suite, and with a place for results that commands use without being told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mini.toml").write_text(SUITE)
    return tmp_path


def begin(plan, results, rows=1, **changed):
    """The path of a record of `plan` with the first `rows` of its rows."""
    own = {"machine": machine.slug(), **machine.revision(), **changed}
    digest = {"plan_digest": plan.digest, "suite": plan.suite.name}
    first = records.environment(plan=plan.to_dict(), **digest, **own)
    found = [records.summary(case=case.id, backend=ref.label) for case, refs in plan.cases for ref in refs]
    path = store.new_path(results, plan.suite.name, first)
    with store.Writer(path) as writer:
        writer.append(first, *found[:rows])
    return path


@pytest.fixture
def interrupted(place, capsys, monkeypatch):
    """Interrupts ``enginebench run ARGUMENTS`` after one row, in a process of a `change`; returns the record."""

    def interrupt(*arguments, rows=1, **changed):
        made = []

        def run(plan, results, _reporter, *, invocation, **_options):
            made.append(begin(plan, results, rows, **changed))
            invocation.keep(made[-1])
            raise runner.Interrupted(made[-1])

        with monkeypatch.context() as patch:
            patch.setattr(run_command.runner, "run", run)
            status, _, err = call(capsys, "run", *arguments)
        assert status == 130
        return made[-1], err

    return interrupt


@pytest.fixture
def resumed(monkeypatch):
    """Plans of a resumed command, each with the record that it continues or None; nothing is measured."""
    found = []

    def run(plan, results, _reporter, *, invocation, **_options):
        earlier = invocation.take_earlier()
        found.append((plan, earlier and earlier.name))
        path = earlier.path if earlier else begin(plan, results, rows=None)
        if earlier is None:
            invocation.keep(path)
        return runner.Outcome(path, records.environment(), [records.summary()])

    monkeypatch.setattr(run_command.runner, "run", run)
    return found


def test_a_run_is_continued_with_the_arguments_that_it_has_kept(interrupted, resumed, place, capsys, monkeypatch):
    path, err = interrupted("mini.toml", "--only", "batch == 2", "--generations", "3", "--json")
    assert err.endswith(f"to continue: enginebench run --resume {path.stem}\n")
    kept = json.loads(name_file(path).read_text())
    assert (kept["command"], kept["cwd"], list(kept["files"])) == ("run", str(place), [str(place / "mini.toml")])
    assert capsys.readouterr().out == ""
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    status, out, _ = call(capsys, "run", f"--resume={path}")
    assert (status, len(json.loads(out))) == (0, 1), "--json is one of the arguments"
    ((plan, continued),) = resumed
    assert (plan.digest, continued) == (store.read(path).environment.plan_digest, path.stem)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "a complete run keeps no arguments"


def test_targets_that_are_complete_are_not_begun_again_and_those_after_them_are(interrupted, resumed, capsys):
    complete, unfinished = interrupted("mini.toml", rows=None)[0], interrupted("mlp")[0]
    name_file(unfinished).unlink()
    invocation = Invocation("run", ["mini.toml", "mlp", "quick"])
    for path in (complete, unfinished):
        invocation.keep(path)
    assert not name_file(complete).exists(), "only the last record of a command can be resumed"
    assert call(capsys, "run", "--resume", unfinished.stem)[0] == 0
    assert [(plan.suite.name, continued) for plan, continued in resumed] == [
        ("mini", complete.stem), ("mlp", unfinished.stem), ("quick", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["--resume"], ["mini.toml", "--resume"], ["--resume", "last", "--json"], ["mini.toml", "--resume=last"]],
    ids=" ".join,
)
@pytest.mark.parametrize("command", ["run", "ablate", "history"])
def test_other_arguments_beside_resume_are_refused(command, arguments, interrupted, capsys):
    interrupted("mini.toml")
    told = "enginebench: expected --resume RUN and nothing else, because the run has kept its other arguments\n"
    assert call(capsys, command, *arguments) == (2, "", told)


def test_a_complete_run_and_one_without_its_arguments_are_refused(interrupted, capsys):
    for rows, told in (
        (1, "cannot be resumed: its arguments are missing"),
        (None, "cannot be resumed: it is complete"),
    ):
        path = interrupted("mini.toml", rows=rows)[0]
        name_file(path).unlink()
        assert call(capsys, "run", "--resume", path.stem) == (2, "", f"enginebench: {path.stem} {told}\n")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"machine": "another"}, "the machine differs: another when it began, "),
        ({"commit": "0123456789ab", "dirty": False}, "the commit differs: 0123456789ab when it began, "),
        ({"dirty": True, "difference": "012345"}, " with changes 012345 when it began, "),
    ],
    ids=["machine", "commit", "changes"],
)
def test_a_run_of_another_machine_or_commit_is_refused(changed, told, interrupted, capsys):
    path = interrupted("mini.toml", **changed)[0]
    status, out, err = call(capsys, "run", "--resume", path.stem)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"enginebench: {path.stem} cannot be resumed: the ")
    assert told in err


MODEL = """
import torch

def net():
    return torch.nn.Linear(2, 2).eval(), (torch.zeros(1, 2),)
"""


@pytest.mark.parametrize(("target", "file"), [("mini.toml", "mini.toml"), ("mine.py:net", "mine.py")])
def test_a_run_of_a_file_that_has_changed_is_refused(target, file, interrupted, place, capsys):
    (place / "mine.py").write_text(MODEL)
    path = interrupted(target)[0]
    with (place / file).open("a") as changed:
        changed.write("\n")
    status, out, err = call(capsys, "run", "--resume", path.stem)
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: {path.stem} cannot be resumed: the file {place / file} differs: ")


def test_arguments_that_ask_for_other_measurements_now_are_refused(interrupted, capsys):
    path = interrupted("mini.toml")[0]
    kept = json.loads(name_file(path).read_text())
    name_file(path).write_text(json.dumps({**kept, "argv": ["mini.toml", "--generations", "9"]}))
    told = f"enginebench: {path.stem} cannot be resumed: its arguments ask for other measurements now\n"
    assert call(capsys, "run", "--resume", path.stem) == (2, "", told)


def test_a_run_is_resumed_by_its_own_command(interrupted, capsys):
    path = interrupted("mini.toml")[0]
    told = f"enginebench: {path.stem} cannot be resumed: the command differs: run when it began, ablate now\n"
    assert call(capsys, "ablate", "--resume", path.stem) == (2, "", told)


def test_a_folder_that_is_gone_is_named(interrupted, place, capsys):
    path = interrupted("mini.toml")[0]
    kept = json.loads(name_file(path).read_text())
    name_file(path).write_text(json.dumps({**kept, "cwd": str(place / "gone")}))
    told = (
        f"enginebench: {path.stem} cannot be resumed: the folder differs: {place / 'gone'} when it began, missing now\n"
    )
    assert call(capsys, "run", "--resume", path.stem) == (2, "", told)


def test_a_run_that_is_in_progress_is_left_alone(interrupted, capsys):
    path = interrupted("mini.toml")[0]
    before = path.read_bytes()
    with store.Writer(path, resume=True):
        status, out, err = call(capsys, "run", "--resume", path.stem)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == f"enginebench: {path.name}: this run is still in progress"
    assert (path.read_bytes(), name_file(path).exists()) == (before, True)


def test_kept_arguments_are_no_run(interrupted, capsys):
    path = interrupted("mini.toml")[0]
    (row,) = json.loads(call(capsys, "list", "runs", "--json")[1])
    assert row["run"] == path.stem
    assert call(capsys, "show", "last")[1].startswith(f"run {path.stem}\n")


def test_who_takes_turns_is_what_the_run_says_that_is_resumed(tmp_path):
    """It follows from the memory that was free when the run began."""
    now = make(of_model("mlp", {"batch": 1}, backends=["eager", "engine", "numpy"], baseline="eager"))
    ((case, _),) = now.cases
    began = replace(now, parts={case.id: [["eager", "eager#2", "engine"], ["eager", "eager#2", "numpy"]]})
    assert now.digest != began.digest
    earlier = store.read(begin(began, tmp_path, rows=None))
    assert runner.run(now, tmp_path, Reporter(), invocation=Invocation(earlier=[earlier])).path == earlier.path
