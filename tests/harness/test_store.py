"""The record survives what happens to files."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest

from suites.cli import main
from suites.harness.errors import UsageError
from suites.harness.record import machine, store
from suites.harness.record.schema import SCHEMA, Error, Samples
from tests import messages
from tests.harness import records
from tests.harness.full_disk import full_after

FIRST = records.environment()
LINE = records.samples(case="c", backend="b", seconds=[[1.0]])


def written(path, *lines):
    with store.Writer(path) as writer:
        writer.append(FIRST, *lines)
    return path


def test_what_is_written_is_read_back_with_its_schema(tmp_path):
    run = store.read(written(tmp_path / "a.jsonl", LINE))
    assert run.environment == FIRST
    assert run.of(Samples) == [LINE]
    assert {json.loads(text)["schema"] for text in run.path.read_text().splitlines()} == {SCHEMA}
    assert not run.cut


def test_a_file_is_never_written_over(tmp_path):
    path = written(tmp_path / "a.jsonl", LINE)
    with pytest.raises(UsageError, match="cannot be written: File exists"):
        store.Writer(path)


@pytest.mark.parametrize("place", ["file/runs/a.jsonl", "file/a.jsonl", "/proc/nowhere/a.jsonl"])
def test_a_place_that_takes_no_file_is_a_message(tmp_path, place):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written: "):
        store.Writer(tmp_path / place)


@pytest.mark.parametrize("target", ["results", "nowhere"], ids=["circle", "nothing"])
def test_a_link_that_leads_nowhere_has_no_runs_and_takes_none(tmp_path, target, capsys):
    """Before Python 3.13, `Path.resolve` raises a RuntimeError for a circle."""
    folder = tmp_path / "results"
    folder.symlink_to(tmp_path / target)
    with messages.raises(UsageError):
        store.Writer(folder / "runs" / "m" / "run.jsonl")
    with pytest.raises(SystemExit):
        main(["list", "runs", "--results", str(folder)])
    assert capsys.readouterr().out == f"no runs under {folder}\n"


def test_a_cut_last_line_is_left_out_and_the_rest_is_kept(tmp_path):
    path = written(tmp_path / "a.jsonl", LINE, LINE)
    whole = path.read_bytes()
    for cut in range(whole.rindex(b"{", 0, whole.rindex(b'"schema"')) + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        run = store.read(path)
        assert len(run.records) == 1
        assert run.cut


def test_resuming_drops_the_cut_line_and_starts_a_new_one(tmp_path):
    path = written(tmp_path / "a.jsonl", LINE)
    path.write_bytes(path.read_bytes() + b'{"schema": 1, "kind": "sam')
    with store.Writer(path, resume=True) as writer:
        writer.append(LINE.model_copy(update={"generation": 1}))
    assert [line.generation for line in store.read(path).of(Samples)] == [0, 1]


HOLD = """
import sys, time
from pathlib import Path
from suites.harness.record import store
writer = store.Writer(Path(sys.argv[1]), resume=sys.argv[2] == "resume")
print("open", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["new", "resume"])
def test_a_record_that_another_process_writes_is_left_alone_until_that_process_has_died(tmp_path, root, how):
    path = tmp_path / "a.jsonl"
    if how == "resume":
        written(path, LINE)
    command = [sys.executable, "-c", HOLD, str(path), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": "."}) as other:
        assert other.stdout.readline() == b"open\n"
        with path.open("ab") as file:
            file.write(b'{"schema": 1, "kind"')  # half of a line that the other process is writing
        before = path.read_bytes()
        with pytest.raises(UsageError, match="this run is still in progress"):
            store.Writer(path, resume=True)
        assert path.read_bytes() == before
        other.kill()
    with store.Writer(path, resume=True):
        assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("how", ["new", "resume"])
def test_a_full_disk_is_named_and_takes_nothing_that_was_stored(tmp_path, how):
    path = tmp_path / "run.jsonl"
    if how == "resume":
        written(path, LINE)
    with store.Writer(path, resume=how == "resume") as writer:
        if how == "new":
            writer.append(FIRST, LINE)
        whole = path.read_bytes()
        told = r"cannot be written: .*; all that was measured before is stored, and --resume goes on"
        with full_after(len(whole) + 100), pytest.raises(UsageError, match=told):
            writer.append(records.samples(seconds=[[0.1] * 1000]))
    assert path.read_bytes() == whole


def test_a_disk_that_is_full_before_the_first_line_keeps_nothing_and_no_empty_record(tmp_path):
    path = tmp_path / "run.jsonl"
    told = "cannot be written: .*; nothing had been measured before$"
    with store.Writer(path) as writer, full_after(100), pytest.raises(UsageError, match=told):
        writer.append(FIRST)
    assert not path.exists()


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = written(tmp_path / "a.jsonl", LINE)
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with messages.raises(UsageError):
        store.read(path)


def test_a_later_schema_is_refused_by_name(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**store.to_json(LINE), "schema": SCHEMA + 1}) + "\n")
    with messages.raises(UsageError):
        store.read(path)


def test_results_belong_to_the_checkout_inside_of_it_and_to_the_current_folder_elsewhere(tmp_path, monkeypatch, root):
    for inside in (root, root / "docs"):
        monkeypatch.chdir(inside)
        assert store.results_folder(None) == root / "results"
    monkeypatch.chdir(tmp_path)
    assert store.results_folder(None) == tmp_path / "results"
    assert store.results_folder(root / "x") == root / "x"
    monkeypatch.setattr(machine, "checkout", lambda: None)  # an installed package
    assert store.results_folder(None) == tmp_path / "results"


def test_a_line_without_schema_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(store.to_json(LINE)) + "\n")
    with messages.raises(UsageError):
        store.read(path)


@pytest.mark.parametrize(
    "replaced",
    [
        (b'"backend": "b"', b'"backend": '),
        (b'"backend": "b", ', b""),
        (b"[[1.0]]", b"[[-1.0]]"),
        (b"[[1.0]]", b"[[1e300]]"),
        (b'"nodes": null', b'"nodes": -5'),
    ],
    ids=["cut", "missing", "negative time", "endless time", "negative count"],
)
def test_a_line_that_somebody_edited_is_explained_in_words(tmp_path, replaced):
    path = written(tmp_path / "a.jsonl", LINE)
    text = path.read_bytes()
    assert replaced[0] in text
    path.write_bytes(text.replace(*replaced))
    with messages.raises(UsageError):
        store.read(path)


def test_a_missing_file_is_a_message(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        store.read(tmp_path / "none.jsonl")


def test_what_is_no_json_number_is_kept_by_name(tmp_path):
    error = Error(relative=math.inf, max_abs=math.nan, tolerance=0.0)
    path = written(tmp_path / "a.jsonl", records.samples(error=error))
    (line,) = store.read(path).of(Samples)
    assert (line.error.relative, math.isnan(line.error.max_abs)) == (math.inf, True)
    assert '"relative": "inf"' in path.read_text()


def test_two_runs_in_one_second_have_two_names(tmp_path):
    environment = records.environment(commit="abc", dirty=True)
    first = store.new_path(tmp_path, "suite", environment)
    written(first, LINE)
    second = store.new_path(tmp_path, "suite", environment)
    assert first != second
    assert first.name.endswith("_abc-dirty_suite.jsonl")
    assert first.parent == tmp_path / "runs" / machine.slug()


def test_the_name_of_a_machine_is_cpu_cores_and_hash():
    import os
    import platform
    import re

    assert re.fullmatch(rf"[a-z0-9-]+-{os.cpu_count()}c-[0-9a-f]{{6}}", machine.slug())
    assert platform.node().lower() not in machine.slug()
    assert machine.environment()["machine"] == machine.slug()
