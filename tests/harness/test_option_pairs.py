"""Options that contradict each other, or of which one would have no effect, are refused; others are obeyed together."""

from __future__ import annotations

import csv

import pytest

from suites.harness.record import store
from tests.harness import records
from tests.harness.test_command_line import call


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["history", "--clear", "--write-asv"], "--write-asv writes what is stored, so --clear has no effect"),
        (
            ["history", "--write-asv", "--since", "HEAD~2"],
            "--write-asv writes what is stored, so --since has",
        ),
        (["history", "--clear", "--results", "x"], "--clear removes builds, so --results has no effect"),
        (["history", "--clear", "--dry-run"], "--clear removes builds, so --dry-run has no effect"),
        (["history", "--since", "HEAD", "--resume", "--dry-run"], "--resume continues to time commits, and --dry-run"),
        (
            ["history", "--since", "HEAD", "--resume", "--counts-only"],
            "--resume continues to time commits, and --cou",
        ),
        (["show", "--details", "--json"], "--details is for the tables of a terminal, and --json is another form"),
        (["show", "--details", "--csv"], "--details is for the tables of a terminal, and --csv is another form"),
        (["show", "--details", "--plot"], "--details is for the tables of a terminal, and --plot is another form"),
        (
            ["show", "--details", "--svg", "a.svg"],
            "--details is for the tables of a terminal, and --svg is",
        ),
        (["show", "--marker", "table"], "--marker is for --into, the file that has the markers"),
        (["list", "models", "--results", "x"], "--results is for list runs, and has no effect on list models"),
        (["run", "mlp", "--timing", "--dry-run"], "--timing is of a run, and --dry-run runs nothing"),
        (["ablate", "mlp", "--markdown", "--json"], "--markdown and --json: each is another output"),
        (["ablate", "mlp", "--markdown", "--dry-run"], "--markdown and --dry-run: each is another output"),
        (["compare", "--accept", "why", "--gate"], "--accept takes the counts as they are, and --gate fails if they"),
        (["compare", "--baselines", "x", "--results", "y"], "--results only names the folder of the accepted counts"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_of_which_one_would_have_no_effect_are_refused(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: {told}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


THREADS = "the threads are a part of the case; use --threads 2, or threads = 2 in the file of a suite"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "mlp", "--dry-run"], THREADS),
        (["ablate", "mlp", "--dry-run"], THREADS),
        (["profile", "mlp"], THREADS),
        (["profile", "mlp", "--backends", "eager"], THREADS),
        (["tune", "gpt2"], "kernels of a GPU have no threads of the CPU"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_command_takes_threads_as_a_field_of_the_configuration(arguments, told, capsys):
    told = f"enginebench: --config 'threads=2': {told}\n"
    assert call(capsys, *arguments, "--config", "threads=2") == (2, "", told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "mlp", "--dry-run", "--backends", "engine[threads=2],eager"], "backend engine: "),
        (["run", "mlp", "--dry-run", "--baseline", "engine[threads=2]"], "--baseline: backend engine: "),
        (["run", "quick", "--dry-run", "--backends", "engine_dynamo[threads=2]"], "backend engine_dynamo: "),
        (["ablate", "mlp", "--dry-run", "--backend", "engine[threads=2]"], "backend engine: "),
        (["profile", "mlp", "--backends", "engine[threads=2]"], "backend engine: "),
        (["accuracy", "mlp", "--backends", "engine[threads=2]"], "backend engine: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_command_takes_threads_in_a_label(arguments, told, capsys):
    assert call(capsys, *arguments) == (2, "", f"enginebench: {told}{THREADS}\n")


@pytest.mark.parametrize("value", ["x", "0", "-2", "02", "\N{SUPERSCRIPT TWO}"])
@pytest.mark.parametrize("arguments", [["--backends", "engine[threads={}]"], ["--config", "threads={}"]])
def test_the_advice_on_threads_repeats_no_value_that_is_no_number_of_threads(arguments, value, capsys):
    status, out, err = call(capsys, "run", "mlp", "--dry-run", *(one.format(value) for one in arguments))
    assert (status, out) == (2, "")
    assert err.endswith(f": {THREADS.replace('2', 'N')}\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("backends = ['engine[threads=2]']", "models[0].backends: backend engine: "),
        ("switches = [{}, { threads = '2' }]", "models[0].switches: "),
    ],
)
def test_no_suite_takes_threads_in_a_label_or_switch(line, told, capsys, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(f"name = 's'\nbackends = ['engine']\nthreads = 1\n[[models]]\nname = 'mlp'\n{line}\n")
    assert call(capsys, "run", str(path), "--dry-run") == (2, "", f"enginebench: {path}: {told}{THREADS}\n")


def test_csv_has_the_rows_of_the_chosen_cases(capsys, tmp_path):
    other = "mlp/b2/t1/fp32"
    first = records.environment(plan={"cases": {records.CASE: ["eager"], other: ["eager"]}})
    path = store.new_path(tmp_path, "tiny", first)
    with store.Writer(path) as writer:
        writer.append(first, records.summary(), records.summary(case=other, shape={"batch": 2}))
    where = ["--csv", "--results", str(tmp_path)]
    whole, chosen = (call(capsys, "show", path.stem, *options, *where)[1] for options in ([], ["--case", other]))
    assert [row["case"] for row in csv.DictReader(whole.splitlines())] == [records.CASE, other]
    assert [row["case"] for row in csv.DictReader(chosen.splitlines())] == [other]
