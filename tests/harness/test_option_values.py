"""Values of options that mean nothing: each is refused by the name of its option, with ``--dry-run`` and without."""

from __future__ import annotations

import json

import pytest

from suites.harness.errors import UsageError
from suites.harness.record import superseded
from tests import messages
from tests.forms import shorten
from tests.harness.test_command_line import call

PATH = "Invalid value for '{}': expected a path, got an empty text"


def read_words(err):
    """The words of a message, without the frame that typer draws."""
    return " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "mlp", "--threads", "", "--dry-run"], "enginebench: mlp: threads[0]: expected a whole number"),
        (["run", "mlp", "--precision", "", "--dry-run"], "enginebench: mlp: precision: unknown precision ''"),
        (["run", "default", "--threads", "", "--dry-run"], "--threads is for a model"),
        (["run", "mlp", "--threads", "1", "--results", "", "--dry-run"], PATH.format("--results")),
        (["ablate", "mlp", "--precision", "", "--dry-run"], "enginebench: mlp: precision: unknown precision ''"),
        (["ablate", "default", "--precision", "", "--dry-run"], "--precision is for a model"),
        (["ablate", "mlp", "--results", "", "--dry-run"], PATH.format("--results")),
        (["profile", "mlp", "--precision", ""], "--precision: unknown precision ''"),
        (["profile", "mlp", "--results", ""], PATH.format("--results")),
        (["accuracy", "mlp", "--precision", ""], "enginebench: mlp: precision: unknown precision ''"),
        (["accuracy", "mlp", "--sensitivity", ""], "unknown precision ''"),
        (["show", "--results", ""], PATH.format("--results")),
        (["run", "mlp", "--recipe", "", "--dry-run"], PATH.format("--recipe")),
        (["accuracy", "mlp", "--recipe", ""], PATH.format("--recipe")),
        (["ablate", "mlp", "--csv", "", "--dry-run"], PATH.format("--csv")),
        (["show", "--into", ""], PATH.format("--into")),
        (["show", "--svg", ""], PATH.format("--svg")),
        (["compare", "--baselines", ""], PATH.format("--baselines")),
        (["history", "--repository", "", "--since", "HEAD~1"], PATH.format("--repository")),
        (["history", "--asv", "", "--write-asv"], PATH.format("--asv")),
        (["site", "--out", ""], PATH.format("--out")),
        (["tune", "gpt2", "--into", ""], PATH.format("--into")),
        (["compare", "last", "--results", ""], PATH.format("--results")),
        (["list", "runs", "--results", ""], PATH.format("--results")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_empty_value_is_refused_by_the_name_of_its_option(arguments, told, capsys):
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert told in read_words(err)


@pytest.mark.parametrize(
    "value",
    shorten(["", "1.5", "x", "-1", "9" * 5000], "-1", "9" * 5000),
    ids=["empty", "1.5", "x", "-1", "long"],
)
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "mlp", "--dry-run"], "--generations"),
        (["ablate", "mlp", "--dry-run"], "--generations"),
        (["ablate", "mlp", "--dry-run"], "--pairs"),
        (["ablate", "mlp", "--dry-run"], "--threads"),
        (["profile", "mlp"], "--threads"),
        (["accuracy", "mlp"], "--threads"),
        (["accuracy", "mlp"], "--chunks"),
        (["list", "models"], "--limit"),
    ],
)
def test_an_option_that_takes_a_whole_number_says_which(arguments, option, value, capsys):
    status, out, err = call(capsys, *arguments, option, value)
    assert (status, out) == (2, "")
    assert f"Invalid value for '{option}'" in read_words(err)


@pytest.mark.parametrize("count", ["0", "1"])
def test_fewer_switches_than_two_make_no_pair(count, capsys, tmp_path):
    options = ["--pairs", count, "--results", str(tmp_path / "results")]
    for ways in ([], ["--dry-run"]):
        status, out, err = call(capsys, "ablate", "mlp", *options, *ways)
        assert (status, out) == (2, "")
        assert "Invalid value for '--pairs'" in read_words(err)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("count", [1, 1001, 10**21])
def test_generations_have_limits_on_the_command_line_and_in_a_suite(count, capsys, tmp_path):
    for command in ("run", "ablate"):
        err = call(capsys, command, "mlp", "--generations", str(count), "--dry-run")[2]
        assert "Invalid value for '--generations'" in read_words(err)
    path = tmp_path / "long.toml"
    path.write_text(f'name = "long"\nbackends = ["eager"]\ngenerations = {count}\n[[models]]\nname = "mlp"\n')
    status, _out, err = call(capsys, "run", str(path), "--dry-run")
    assert status == 2
    assert f"generations: expected {'at least 2' if count == 1 else 'at most 1000'}, got {count}" in err


def test_the_estimate_of_many_generations_grows_with_their_number(capsys, tmp_path):
    seconds = []
    for count in ("2", "3", "1000"):
        where = ["--results", str(tmp_path), "--json"]
        out = call(capsys, "run", "mlp", "--threads", "1", "--generations", count, "--dry-run", *where)[1]
        seconds.append(json.loads(out)[0]["estimate_s"])
    assert seconds[2] == pytest.approx(seconds[0] + 998 * (seconds[1] - seconds[0]), abs=998)  # of rounding to seconds


@pytest.mark.parametrize(("baseline", "told"), [("foo", "unknown backend 'foo'"), ("", "backend '': expected name")])
def test_a_wrong_baseline_is_refused(baseline, told, capsys):
    status, out, err = call(capsys, "run", "mlp", "--baseline", baseline, "--dry-run")
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: {told}")


def test_a_dry_ablation_refuses_a_file_that_cannot_be_written_and_creates_none(capsys, tmp_path):
    where = ["--results", str(tmp_path), "--dry-run"]
    status, out, err = call(capsys, "ablate", "mlp", "--csv", "/nowhere/a.csv", *where)
    assert (status, out, err) == (2, "", "enginebench: /nowhere/a.csv: cannot be written: No such file or directory\n")
    assert call(capsys, "ablate", "mlp", "--csv", str(tmp_path / "a.csv"), *where)[0] == 0
    assert not list(tmp_path.iterdir())


def test_a_dry_ablation_counts_one_as_one(capsys, tmp_path):
    switches = ["--switches", "fuse_gelu", "--results", str(tmp_path)]
    out = call(capsys, "ablate", "mlp", *switches, "--dry-run")[1]
    assert "ablate_mlp: 1 case, 1 switch, 4 generations; about 1.4 minutes if each" in out


@pytest.mark.parametrize("place", shorten(["file", "file/below"], "file"))
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "default", "--dry-run"],
        ["run", "default"],
        ["ablate", "mlp"],
        ["profile", "mlp", "--record"],
        ["profile", "mlp", "--backends", "eager"],
        ["show", "last"],
        ["list", "runs"],
        ["compare", "last"],
        ["compare"],
        ["history", "--write-asv"],
        ["history", "--since", "HEAD~1"],
        ["site"],
    ],
    ids=" ".join,
)
def test_a_results_folder_that_is_a_file_is_refused_as_such(arguments, place, capsys, tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    checkout = ["--repository", str(root)] if "--since" in arguments else []
    told = "enginebench: file: is a file; expected the folder of results\n"
    assert call(capsys, *arguments, *checkout, "--results", place) == (2, "", told)


LONG = "1" * 5000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", LONG], ids=["superscript", "long"])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--threads", "{}"], "threads[0]: expected a whole number, got '"),
        (["--set", "batch={}"], "batch='{}' is no integer of at least 1"),
    ],
    ids=["threads", "set"],
)
def test_digits_that_python_reads_as_no_number_are_refused(arguments, told, text, capsys):
    status, out, err = call(capsys, "run", "mlp", *(one.format(text) for one in arguments), "--dry-run")
    assert (status, out) == (2, "")
    assert told.format(text) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [(f"rounds = {LONG}", "Exceeds the limit"), (f"a = {'[' * 100_000}", "its lists or tables are nested")],
    ids=["digits", "nested"],
)
def test_a_suite_file_beyond_the_limits_of_python_is_refused_in_one_line(content, reason, capsys, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(content)
    status, out, err = call(capsys, "run", str(path), "--dry-run")
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: {path}: not valid TOML: {reason}")
    assert err.count("\n") == 1


def test_a_list_of_faults_beyond_the_limits_of_python_is_refused_in_one_line(tmp_path):
    (tmp_path / "superseded.toml").write_text(f"fault = {LONG}")
    with messages.raises(UsageError):
        superseded.known(tmp_path)


@pytest.mark.parametrize(
    "text", ["not " * 3000 + "1", "-" * 3000 + "1", "(" * 300 + "1" + ")" * 300], ids=["not", "-", "("]
)
def test_an_expression_that_is_nested_too_deeply_is_refused_in_one_line(text, capsys):
    status, out, err = call(capsys, "run", "mlp", "--threads", "1", "--only", text, "--dry-run")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("enginebench: --only ")
