"""enginebench history: a toy clone in which commits are slower, larger, broken, or change nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from engine import _native
from suites.backends import revisions, versions
from suites.cli import history, main
from suites.harness.errors import UsageError
from suites.harness.judge import steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.record import machine, reasons, store
from suites.harness.record.commits import CommitRecord, CountedCase
from suites.harness.record.facts import Facts
from suites.harness.run import runner
from suites.history.asv_results import COLUMNS, LATENCY, write_results
from suites.history.commits import list_commits
from tests import messages
from tests.harness import records
from tests.harness.test_versions import SLOWER

SUITE = """
name = "tiny"
backends = ["engine"]
baseline = "engine"
rounds = 4
samples_per_round = 3
generations = 2
generation_budget_s = 4.0
[[models]]
name = "mlp"
options = { widths = "64-64-64" }
"""

LARGER = """
PIPELINE = tuple(name for name in PIPELINE if name not in ("fuse_epilogue", "fuse_gelu", "fuse_pointwise"))
"""


def git(folder, *arguments):
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def commit(folder, message, changes):
    """Append text to files of the package, and commit."""
    for name, text in changes.items():
        with (folder / name).open("a") as file:
            file.write(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def toy(root, tmp_path_factory):
    """A repository with the engine of this checkout, and commits by name."""
    folder = tmp_path_factory.mktemp("history") / "toy"
    folder.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("engine", "csrc"):
        shutil.copytree(root / name, folder / name, ignore=left_out)
    for name in ("CMakeLists.txt", "pyproject.toml", ".gitignore"):
        shutil.copy(root / name, folder / name)
    git(folder, "init", "--quiet")
    names = {"first": commit(folder, "Begin", {})}
    names["renamed"] = commit(folder, "Say nothing new", {"engine/sizes.py": "\n# a comment\n"})
    names["slower"] = commit(folder, "Wait in every call", {"engine/__init__.py": SLOWER})
    names["readme"] = commit(folder, "Write a page", {"README.md": "a page\n"})
    names["larger"] = commit(folder, "Fuse less", {"engine/passes/__init__.py": LARGER})
    names["broken"] = commit(folder, "Forget a colon", {"engine/__init__.py": "\nif True\n"})
    git(folder, "revert", "--no-edit", "HEAD")
    names["mended"] = git(folder, "rev-parse", "HEAD")
    return folder, names


@pytest.fixture(scope="module")
def cache(toy, tmp_path_factory):
    """A cache of this test, which holds the extension of this checkout, so that nothing is compiled."""
    folder, names = toy
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        kept = revisions.kept_folder() / "extensions" / revisions.name_extension(folder, names["first"])
        kept.mkdir(parents=True)
        shutil.copy(_native.__file__, kept)
        yield cache


@pytest.fixture(scope="module")
def measured(toy, cache, tmp_path_factory):
    """The stored run of the whole history, and what the command printed; a minute of processes."""
    folder, names = toy
    place = tmp_path_factory.mktemp("measured")
    (place / "tiny.toml").write_text(SUITE)
    command = ["history", "--repository", str(folder), "--since", names["first"], "--suite", str(place / "tiny.toml"),
               "--results", str(place / "results"), "--json"]  # fmt: skip
    printed = place / "printed"
    with printed.open("w") as file, redirect_stdout(file), pytest.raises(SystemExit) as stop:
        main(command)
    assert not stop.value.code
    return json.loads(printed.read_text()), place


def test_commits_that_change_no_engine_are_left_out(toy):
    folder, names = toy
    found = [one.name for one in list_commits(folder, names["first"])]
    assert found == [names[name] for name in ("first", "renamed", "slower", "larger", "broken", "mended")]
    some = list_commits(folder, names["first"], every=2)
    assert [(one.name, one.skipped) for one in some] == [
        (names["first"], 0), (names["slower"], 1), (names["broken"], 1), (names["mended"], 0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("since", "until"), [("nowhere", "HEAD"), ("HEAD", "HEAD~1"), ("HEAD", "HEAD"), ("--output=x", "HEAD")]
)
def test_a_range_that_means_nothing_is_one_line(toy, since, until):
    with messages.raises(UsageError):
        list_commits(toy[0], since, until)


@pytest.mark.long
def test_a_planted_regression_is_named_and_nothing_else(toy, measured):
    _, names = toy
    answer, _ = measured
    (case,) = answer["cases"]
    words = {one["commit"]: one["verdict"] or one["note"] for one in case["commits"]}
    assert words[names["first"]] == "first"
    assert words[names["slower"]] == "slower"
    assert words[names["broken"]] == "failed"
    assert words[names["mended"]] == "same code"
    assert words[names["renamed"]] != "slower"
    (step,) = [one for one in case["commits"] if one["verdict"] == "slower"]
    assert step["speed"]["high"] < 0.5
    assert step["subject"] == "Wait in every call"


@pytest.mark.long
def test_a_commit_whose_programs_have_other_counts_is_named(toy, measured):
    _, names = toy
    (case,) = measured[0]["cases"]
    changed = {one["commit"]: one["changes"] for one in case["commits"] if one["changes"]}
    assert list(changed) == [names["larger"]]
    before, now = changed[names["larger"]]["launches"]
    assert now > before


@pytest.mark.long
def test_a_commit_that_does_not_start_is_recorded_with_its_reason(toy, measured):
    _, names = toy
    run = store.read(Path(measured[0]["path"]))
    lines = {line.commit: line for line in run.of(CommitRecord)}
    assert list(lines) == [names[name] for name in ("first", "renamed", "slower", "larger", "broken", "mended")]
    broken = lines[names["broken"]]
    assert (broken.status, broken.backend, broken.cases) == ("failed", None, {})
    assert "SyntaxError" in broken.reason
    assert lines[names["mended"]].previous == names["larger"]
    assert lines[names["mended"]].backend == lines[names["larger"]].backend
    assert not any(str(toy[0]) in text for text in run.path.read_text().splitlines())


@pytest.mark.long
def test_neighbours_took_turns_and_the_first_has_a_second_copy(toy, measured):
    _, names = toy
    run = store.read(Path(measured[0]["path"]))
    labels = [f"{versions.PREFIX}{names[name][:12]}" for name in ("first", "renamed", "slower", "larger")]
    (found,) = run.environment.plan.cases.values()
    assert found == [labels[0], f"{labels[0]}#2", *labels[1:]]
    assert run.environment.plan.baseline == labels[0]


@pytest.mark.long
def test_a_stored_history_is_shown_and_is_no_measurement(measured, capsys):
    answer, place = measured
    with pytest.raises(SystemExit) as stop:
        main(["show", Path(answer["path"]).stem, "--results", str(place / "results")])
    assert not stop.value.code
    out = " ".join(capsys.readouterr().out.split())
    assert "slower at" in out
    assert "counts changed at" in out
    with pytest.raises(SystemExit):
        main(["compare", "last", "--results", str(place / "results")])
    assert "no run of this machine" in capsys.readouterr().err


@pytest.mark.long
def test_asv_reads_the_same_history_and_names_the_same_commit(toy, measured, tmp_path):
    """asv publish finds the step; asv compare of the two commits does, too."""
    pytest.importorskip("asv", reason="needs asv, of the extra dev")
    folder, names = toy
    answer, place = measured
    config = {"version": 1, "project": "toy", "repo": str(folder), "branches": ["HEAD"], "dvcs": "git",
              "results_dir": str(place / "results" / "asv"), "html_dir": str(tmp_path / "html"),
              "env_dir": str(tmp_path / "env")}  # fmt: skip
    (tmp_path / "asv.conf.json").write_text(json.dumps(config))
    asv = [sys.executable, "-m", "asv"]

    def run(*arguments):
        command = [*asv, *arguments, "--config", str(tmp_path / "asv.conf.json")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("publish")
    found = json.loads((tmp_path / "html" / "regressions.json").read_text())["regressions"]
    commits = {
        value: key for key, value in json.loads((tmp_path / "html/index.json").read_text())["revision_to_hash"].items()
    }
    by_revision = {revision: name for name, revision in commits.items()}
    steps_of = {entry[0]: [by_revision.get(step[1]) or step[1] for step in entry[6]] for entry in found}
    text = json.dumps(steps_of)
    assert names["slower"] in text or str(commits[names["slower"]]) in text
    lines = run("compare", names["renamed"], names["slower"], "--machine", Path(answer["asv"]).name).splitlines()
    (latency,) = [line for line in lines if "track_latency" in line]
    assert latency.lstrip("|").strip().startswith("+")


def test_a_step_in_stored_times_is_named_and_is_in_the_files_of_asv(tmp_path):
    """Of a run that is made up: the second commit changes nothing that is timed, the third takes twice as long."""
    names = [character * 40 for character in "abc"]
    labels = [f"{versions.PREFIX}{name[:12]}" for name in names]
    lines = [
        records.samples(backend=label, generation=number, seconds=[[seconds * (1 + 0.001 * (number + turn % 3))] * 3
                                                                   for turn in range(5)])
        for label, seconds in zip(labels, (1e-3, 1e-3, 2e-3), strict=True)
        for number in range(2)
    ]  # fmt: skip
    commits = [
        CommitRecord(
            commit=name, previous=before, date="2026-11-20T10:00:00+00:00", subject="A change", status="built",
            backend=label, digest=name[:1], cases={records.CASE: CountedCase(facts=Facts(launches=launches))},
        )
        for name, before, label, launches in zip(names, [None, *names], labels, (30, 30, 28), strict=False)
    ]  # fmt: skip
    run = store.Run(tmp_path / "run.jsonl", records.environment(suite="history"), [*lines, *commits])
    (track,) = steps.follow(run, MachineNoise())
    first, same, slower = track.points
    assert (first.verdict, first.note, slower.verdict, slower.note) == (None, "first", "slower", "")
    assert not same.is_step
    assert slower.speed.high < 1 / 1.5
    assert [point.changes for point in track.points] == [{}, {}, {"launches": (30, 28)}]
    place = write_results([track], run.environment, tmp_path / "asv")
    told = json.loads((place / f"{names[2][:8]}-history.json").read_text())["results"]
    row = dict(zip(COLUMNS, told[LATENCY], strict=True))
    assert row["result"] == [pytest.approx(2e-3, rel=0.01)]
    assert row["stats_ci_99_a"][0] < 2e-3 < row["stats_ci_99_b"][0]


def test_a_history_without_times_counts_every_commit(toy, cache, tmp_path, capfd):
    folder, names = toy
    (tmp_path / "tiny.toml").write_text(SUITE)
    arguments = ["--repository", str(folder), "--since", names["slower"], "--suite", str(tmp_path / "tiny.toml")]
    with pytest.raises(SystemExit) as stop:
        main(["history", *arguments, "--counts-only", "--results", str(tmp_path / "results")])
    out, _ = capfd.readouterr()
    assert not stop.value.code
    assert "counts alone" in out
    (path,) = store.run_files(tmp_path / "results")
    (track,) = steps.follow(store.read(path), MachineNoise())
    assert [point.note for point in track.points] == ["first", "not timed", "failed", "same code"]
    words = " ".join(out.split())
    assert f"launches {track.points[0].counts['launches']}" in words  # the first row has all counts
    assert "latency" not in words  # nothing was timed, so nothing is said of times
    assert "SyntaxError: " in words


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--suite", "transfomer", "--dry-run"], "did you mean 'transformer_sweep'"),
        (["--only", "thread == 1", "--dry-run"], "did you mean 'threads'"),
        (["--only", "threads == 99", "--dry-run"], "leaves no case of suite history"),
        (["--asv", f"{__file__}/asv", "--dry-run"], f"{__file__}: is a file; expected the folder of results"),
    ],
)
def test_a_history_checks_its_options_before_it_builds_or_lists(toy, tmp_path, capsys, options, told):
    folder, names = toy
    arguments = ["--repository", str(folder), "--since", names["slower"], "--results", str(tmp_path / "results")]
    with pytest.raises(SystemExit) as stop:
        main(["history", *arguments, *options])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert told in err


def test_a_history_is_resumed_with_the_arguments_that_it_has_kept(toy, tmp_path, monkeypatch, capsys):
    folder, names = toy
    monkeypatch.chdir(tmp_path)
    seen = []

    def interrupt(request, results, _reporter, invocation):
        seen.append(([one.name for one in request.commits], [run.path for run in invocation.earlier]))
        if not invocation.earlier:
            first = records.environment(suite="history", machine=machine.slug(), **machine.revision())
            path = store.new_path(results, "history", first)
            with store.Writer(path) as writer:
                writer.append(first)
            invocation.keep(path)
        raise runner.Interrupted(invocation.last)

    monkeypatch.setattr(history, "measure", interrupt)
    for arguments in (["--repository", str(folder), "--since", names["slower"]], ["--resume", "last:history"]):
        with pytest.raises(SystemExit, match="130"):
            main(["history", *arguments])
    (path,) = store.all_run_files(tmp_path / "results")
    assert seen == [(seen[0][0], []), (seen[0][0], [path])]
    assert capsys.readouterr().err.endswith(f"to continue: enginebench history --resume {path.stem}\n")


def test_a_revision_is_a_backend(toy, cache, monkeypatch):
    folder, names = toy
    monkeypatch.setattr("suites.harness.record.machine.checkout", lambda: folder)
    assert versions.resolve("engine@HEAD", folder) == f"engine@{names['mended'][:12]}"
    with messages.raises(UsageError):
        versions.resolve("engine@HEAD~99", folder)


def test_a_kept_worktree_that_somebody_changed_is_made_again(toy, cache):
    folder, names = toy
    kept = revisions.prepare(folder, names["first"])
    (kept / "engine" / "sizes.py").write_text("broken = True\n")
    again = revisions.prepare(folder, names["first"])
    assert again == kept
    assert "broken" not in (kept / "engine" / "sizes.py").read_text()


@pytest.mark.long
def test_stored_histories_are_written_for_asv_again(measured, tmp_path, capfd):
    answer, place = measured
    told = run_command(capfd, "--write-asv", "--results", str(place / "results"), "--asv", str(tmp_path / "asv"))
    assert "1 stored run as results of asv" in told.out
    first = Path(answer["asv"])
    again = tmp_path / "asv" / first.name
    names = sorted(path.name for path in first.glob("*.json"))
    assert len(names) > 3
    assert [path.name for path in sorted(again.glob("*.json"))] == names
    for name in names:
        assert (again / name).read_text() == (first / name).read_text()


def run_command(capfd, *arguments):
    with pytest.raises(SystemExit):
        main(["history", *arguments])
    return capfd.readouterr()


def test_uncommitted_changes_are_told_and_are_in_no_row(toy, capfd):
    folder, names = toy
    arguments = ["--repository", str(folder), "--since", names["slower"], "--dry-run"]
    assert run_command(capfd, *arguments).err == ""
    changed = folder / "engine" / "sizes.py"
    text = changed.read_text()
    changed.write_text(f"{text}# not committed\n")
    try:
        assert "uncommitted changes, which are in no row" in run_command(capfd, *arguments).err
    finally:
        changed.write_text(text)


def test_a_dry_run_refuses_what_a_run_refuses(toy, capfd):
    folder, names = toy
    arguments = ["--repository", str(folder), "--since", names["slower"], "--dry-run", "--suite", "nope"]
    assert "nope" in run_command(capfd, *arguments).err


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "ERROR: Failed building wheel\n  CMake Error at CMakeLists.txt:1 (message):\n    planted\n\n-- incomplete",
            "CMake Error at CMakeLists.txt:1 (message): planted",
        ),
        ("csrc/a.c: In function f:\ncsrc/a.c:3:5: error: expected ;\nERROR: no", "csrc/a.c:3:5: error: expected ;"),
        ("Traceback\n  File x\nSyntaxError: expected ':'\nend", "SyntaxError: expected ':'"),
        (
            "error: subprocess-exited-with-error\na.c:(.text+0x5): undefined reference to `g'\ncollect2: error: ld",
            "a.c:(.text+0x5): undefined reference to `g'",
        ),
        ("ninja: error: loading 'build.ninja': No such file", "ninja: error: loading 'build.ninja': No such file"),
        ("fatal: 'x' is already checked out\nmore", "fatal: 'x' is already checked out"),
        ("the build ended with exit status 1:", None),
    ],
)
def test_the_line_that_says_what_is_wrong_is_found(text, cause):
    assert reasons.find_cause(text) == cause


def test_a_build_that_fails_says_in_its_first_line_what_is_wrong(tmp_path):
    errors = {
        "CMake Error at CMakeLists.txt:1 (message):\\n  planted": "CMake Error at CMakeLists.txt:1 (message): planted",
        "ld: cannot find -lplanted: No such file\\nld: error: second": "ld: cannot find -lplanted: No such file",
    }
    for said, cause in errors.items():
        text = f"{said}\\n" + "more\\n" * 40
        with messages.raises(revisions.CannotBuild) as refused:
            revisions._run([sys.executable, "-c", f"print('{text}'); raise SystemExit(1)"], "the build")
        first, *others = str(refused.value).splitlines()
        assert first.endswith(f": {cause}")
        assert others == ["more"] * 12


def test_a_build_that_fails_says_how_it_ended(toy, tmp_path, monkeypatch):
    folder, names = toy
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(revisions.sys, "executable", shutil.which("false"))
    with messages.raises(revisions.CannotBuild):
        revisions.prepare(folder, names["first"])
