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
        (["show", "--details", "--json"], "--details and --json: each is a form of the whole output; give one of them"),
        (["show", "--details", "--csv"], "--details and --csv: each is a form of the whole output; give one of them"),
        (["show", "--details", "--plot"], "--details and --plot: each is a form of the whole output; give one of them"),
        (
            ["show", "--details", "--svg", "a.svg"],
            "--details and --svg: each is a form of the whole output",
        ),
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


THREADS = "the threads are a part of the case; use --threads N, or threads = N in a suite or in a marker of pytest"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "mlp", "--dry-run", "--backends", "engine[threads=2],eager"], "backend engine: "),
        (["run", "mlp", "--dry-run", "--baseline", "engine[threads=2]"], "backend engine: "),
        (["run", "quick", "--dry-run", "--backends", "engine_dynamo[threads=2]"], "backend engine_dynamo: "),
        (["ablate", "mlp", "--dry-run", "--backend", "engine[threads=2]"], "backend engine: "),
        (["profile", "mlp", "--backends", "engine[threads=2]"], "mlp: backends: backend engine: "),
        (["accuracy", "mlp", "--backends", "engine[threads=2]"], "backend engine: "),
        (["profile", "mlp", "--backend", "engine[threads=2]"], "backend engine: "),
        (["tune", "gpt2", "--backend", "engine[threads=2]"], "backend engine: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_command_takes_threads_in_a_label(arguments, told, capsys):
    assert call(capsys, *arguments) == (2, "", f"enginebench: {told}{THREADS}\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("backends = ['engine[threads=2]']", "models[0].backends: backend engine: "),
        ("switches = [{}, { threads = '2' }]", "models[0].switches: backend engine: "),
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
