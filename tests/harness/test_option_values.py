"""Values of options that mean nothing: each is refused by the name of its option, with ``--dry-run`` and without."""

from __future__ import annotations

import pytest

from tests.harness.test_command_line import call


@pytest.mark.parametrize("ways", [["--dry-run"], ["--dry-run", "--json"], []], ids=" ".join)
@pytest.mark.parametrize("switches", ["", ",", " , "])
def test_an_ablation_of_no_switches_is_refused(switches, ways, capsys, tmp_path):
    status, out, err = call(capsys, "ablate", "mlp", "--switches", switches, "--results", str(tmp_path), *ways)
    assert (status, out) == (2, "")
    assert err == "enginebench: --switches names none; leave it out for the usual switches\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "mlp", "--threads", "", "--dry-run"], "--threads '': expected values separated by commas"),
        (["run", "mlp", "--precision", "", "--dry-run"], "--precision '': expected values separated by commas"),
        (["run", "default", "--threads", "", "--dry-run"], "--threads is for a model"),
        (["run", "mlp", "--threads", "1", "--results", "", "--dry-run"], "--results '': expected the path of a folder"),
        (["ablate", "mlp", "--precision", "", "--dry-run"], "--precision '': expected values separated by commas"),
        (["ablate", "default", "--precision", "", "--dry-run"], "--precision is for a model"),
        (["ablate", "mlp", "--results", "", "--dry-run"], "--results '': expected the path of a folder"),
        (["profile", "mlp", "--precision", ""], "--precision: unknown precision ''"),
        (["profile", "mlp", "--results", ""], "--results '': expected the path of a folder"),
        (["accuracy", "mlp", "--precision", ""], "--precision '': expected values separated by commas"),
        (["accuracy", "mlp", "--sensitivity", ""], "--sensitivity: unknown precision ''"),
        (["accuracy", "mlp", "--markdown", ""], "--markdown: . is a folder"),
        (["show", "--results", ""], "--results '': expected the path of a folder"),
        (["compare", "last", "--results", ""], "--results '': expected the path of a folder"),
        (["list", "runs", "--results", ""], "--results '': expected the path of a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_empty_value_is_refused_by_the_name_of_its_option(arguments, told, capsys):
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"enginebench: {told}")
    assert err.count("\n") == 1
