"""Which run a name means, for every command that takes one."""

from __future__ import annotations

import json

import pytest

import suites
from suites.harness.errors import UsageError
from suites.harness.record import lookup, machine, store
from suites.harness.record.schema import AblationRecord
from tests import messages
from tests.harness import commands, records

RUNS = ("20261121T101112Z_abc_default", "20261121T101113Z_abc_bert", "20261122T101112Z_abc-dirty_default",
        "20261123T000000Z_abc_ablate_bert", "20261124T000000Z_abc_bert")  # fmt: skip
EMPTY = RUNS[-1]


@pytest.fixture
def results(tmp_path):
    """Five runs of this machine; the newest one was interrupted before its first row."""
    effect = AblationRecord(case="c", switch="s", switch_kind="pass", mode="leave_one_out", reached=False, with_="a",
                            without="b")  # fmt: skip
    for name in RUNS:
        lines = {EMPTY: [], RUNS[3]: [records.summary(), effect]}.get(name, [records.summary()])
        path = store.runs_folder(tmp_path, machine.slug()) / f"{name}.jsonl"
        with store.Writer(path) as writer:
            writer.append(records.environment(suite=lookup.name_suite(path)), *lines)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (RUNS[0], 0),
        (f"{RUNS[0]}.jsonl", 0),
        ("20261121T101113", 1),
        ("20261122", 2),
        ("last", 4),
        ("last:default", 2),
        ("last:bert", 4),
        ("last:ablate_bert", 3),
        ("ablate", 3),
    ],
)
def test_a_run_is_found_by_its_name_a_part_of_it_and_as_the_last_of_a_suite(results, name, number):
    assert lookup.find_run(results, name).name == RUNS[number]


def test_a_run_is_found_by_its_path(results):
    path = store.run_files(results)[1]
    assert lookup.find_run(results / "elsewhere", str(path)).path == path


@pytest.mark.parametrize("name", ["no/such.jsonl", "{}", "{}/x.jsonl", "/dev/zero", ""])
def test_what_is_no_record_is_refused(results, tmp_path, name):
    with messages.raises(UsageError):
        lookup.find_run(results, name.format(tmp_path))


def test_last_is_the_newest_run_of_a_suitable_kind(results):
    assert lookup.find_run(results, "last", lookup.is_shown).name == RUNS[3]
    assert lookup.find_run(results, "last", lookup.is_measurement).name == RUNS[2]
    assert lookup.find_run(results, "last:bert", lookup.is_measurement).name == RUNS[1]
    with messages.raises(UsageError):
        lookup.find_run(results, "last:ablate_bert", lookup.is_measurement, "has rows")
    assert lookup.find_run(results, EMPTY, lookup.is_measurement).name == EMPTY, "what is named is found all the same"


@pytest.mark.parametrize("run", ["last:ablate_bert", RUNS[3]])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--plot"], "--plot is"),
        (["--case", "mlp"], "--case is"),
        (["--plot", "--case", "mlp"], "--plot and --case are"),
    ],
)
def test_options_for_rows_say_by_name_that_an_ablation_has_none(results, capsys, run, options, told):
    status, _, err = commands.call(capsys, "show", run, *options, "--results", str(results))
    assert (status, err) == (2, f"enginebench: {told} for runs of a suite or model, and {RUNS[3]} is an ablation\n")


def test_an_ablation_that_reached_no_switch_has_no_rows_for_any_command(tmp_path, capsys):
    effect = AblationRecord(case="c", switch="s", switch_kind="pass", mode="leave_one_out", reached=False, with_="a",
                            without="b")  # fmt: skip
    for name, line in ((RUNS[1], records.summary()), (RUNS[3], effect)):
        path = store.runs_folder(tmp_path, machine.slug()) / f"{name}.jsonl"
        with store.Writer(path) as writer:
            writer.append(records.environment(suite=lookup.name_suite(path), machine=machine.slug()), line)
    where = ["--results", str(tmp_path)]
    listed = json.loads(commands.call(capsys, "list", "runs", "--json", *where)[1])
    assert {row["run"]: row["rows"] for row in listed} == {RUNS[1]: 1, RUNS[3]: 0}
    assert set(suites.load_runs(tmp_path)["run"]) == {RUNS[1]}
    told = f"enginebench: {RUNS[1]} and {RUNS[3]} have no row in common\n"
    assert commands.call(capsys, "compare", RUNS[1], RUNS[3], *where) == (2, "", told)
    assert "Not reached" in commands.call(capsys, "show", "last", *where)[1]


def test_options_for_rows_are_named_where_no_run_has_rows(tmp_path, capsys):
    path = store.runs_folder(tmp_path, machine.slug()) / f"{EMPTY}.jsonl"
    with store.Writer(path) as writer:
        writer.append(records.environment(suite="bert"))
    status, _, err = commands.call(capsys, "show", "--plot", "--case", "mlp", "--results", str(tmp_path))
    assert status == 2
    assert "is a run of a suite or model with rows, which --plot and --case are for\n" in err


@pytest.mark.parametrize("part", ["20261121", "bert"])
def test_an_ambiguous_part_lists_what_it_may_mean(results, part):
    with messages.raises(UsageError):
        lookup.find_run(results, part)


def test_a_wrong_name_gets_the_nearest(results):
    with store.Writer(store.runs_folder(results) / "zzz.jsonl") as writer:
        writer.append(records.environment())
    with messages.raises(UsageError) as caught:
        lookup.find_run(results, "20261121T101112Z_abd_default")
    assert "zzz" not in str(caught.value)
    with messages.raises(UsageError):
        lookup.find_run(results, "lst")
    with messages.raises(UsageError):
        lookup.find_run(results, "last:brt")


def test_a_full_name_that_is_a_part_of_another_is_found(tmp_path):
    for name in ("20261121T000000Z_abc_minilm", "20261121T000000Z_abc_minilm_wide"):
        with store.Writer(store.runs_folder(tmp_path, machine.slug()) / f"{name}.jsonl") as writer:
            writer.append(records.environment())
        assert lookup.find_run(tmp_path, "20261121T000000Z_abc_minilm").name == "20261121T000000Z_abc_minilm"
    assert lookup.find_run(tmp_path, "last:minilm").name == "20261121T000000Z_abc_minilm"


def test_no_runs_are_said_with_the_folder(tmp_path):
    with messages.raises(UsageError):
        lookup.find_run(tmp_path, "last")
    with messages.raises(UsageError):
        lookup.find_run(tmp_path, "x")
