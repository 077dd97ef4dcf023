"""Stored runs as a DataFrame: nothing is lost, machines stay apart, what cannot be read is named."""

from __future__ import annotations

import io
import json
import re
import warnings
from functools import lru_cache

import pandas as pd
import pytest

import suites
from suites.cli import main
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.record import frame, store
from suites.harness.record.schema import AblationRecord, Compared, Speed, Summary
from tests import messages
from tests.harness import records

LATENCY = stats.latency([[[1e-3, 2e-3]]])


def write(results, name, *lines, machine="cpu-2c", **environment):
    path = results / "runs" / machine / f"{name}.jsonl"
    with store.Writer(path) as writer:
        writer.append(records.environment(machine=machine, **environment), *lines)
    return path


def engine_row(**fields):
    peer = Compared(backend="onnxruntime", speed=Speed(1.1, 1.0, 1.25), verdict="faster")
    told = {"latency": LATENCY, "speed": Speed(2.0, 1.6, 2.5), "best_peer": peer, "launches": 7}
    return records.summary(backend="engine", shape={"batch": 1, "sequence": 8}, options={"width": 4}, **told | fields)


def test_every_committed_row_is_in_the_frame(root, monkeypatch):
    monkeypatch.setattr(store, "read", lru_cache(maxsize=None)(store.read))  # a file is read once for all frames
    paths = store.all_run_files(root / "results")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = suites.load_runs(root / "results")
    runs = [store.read(path, lenient=True) for path in paths]
    stored = [line for run in runs for line in run.summaries()]
    assert len(rows) == len(stored)
    assert rows["status"].tolist() == [line.status for line in stored]
    medians = [line.latency.p50 for line in stored if line.latency]
    assert rows["latency_p50"].dropna().tolist() == medians
    assert rows.attrs["problems"] == []
    assert set(rows["machine"]) == {run.path.parent.name for run in runs if run.summaries()}
    effects = suites.load_ablations(root / "results")
    assert len(effects) == sum(len(run.of(AblationRecord)) for run in runs)


def test_parts_of_a_value_have_columns_of_their_own_and_unknown_is_missing(tmp_path):
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(), records.summary(latency=LATENCY), commit="abc")
    engine, eager = suites.load_runs(tmp_path).to_dict("records")
    assert (engine["latency_p50"], engine["latency_n"]) == (pytest.approx(1.5e-3), 2)
    assert (engine["speed"], engine["speed_low"], engine["speed_high"]) == (2.0, 1.6, 2.5)
    assert (engine["best_peer"], engine["best_peer_speed"]) == ("onnxruntime", 1.1)
    assert (engine["launches"], engine["shape_sequence"], engine["options"]) == (7, 8, '{"width": 4}')
    assert engine["started"] == pd.Timestamp("2026-11-21T12:06:04Z")
    for name in ("speed", "best_peer", "best_peer_speed", "launches", "shape_sequence", "arena_bytes", "options"):
        assert pd.isna(eager[name]), name


def test_several_comparisons_of_a_row_are_json_in_one_column(tmp_path):
    old = Compared(backend="engine@../old", speed=Speed(1.0, 0.97, 1.04), verdict="same", detectable=float("inf"))
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(versions=[old]), records.summary(latency=LATENCY))
    engine, eager = suites.load_runs(tmp_path)["versions"]
    (told,), speed = json.loads(engine), {"value": 1.0, "low": 0.97, "high": 1.04}
    assert (told["backend"], told["speed"], told["detectable"]) == ("engine@../old", speed, "inf")
    assert pd.isna(eager)


def test_columns_have_the_types_that_the_page_says(tmp_path):
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row())
    rows = suites.load_runs(tmp_path)
    for column in (*frame.ABOUT_RUN, *frame.columns(Summary)):
        assert str(rows[column.name].dtype) == column.dtype, column.name
    with messages.warns(frame.RecordWarning):
        empty = suites.load_runs(tmp_path, suite="other")
    assert empty.dtypes.to_dict().items() <= rows.dtypes.to_dict().items()


def test_a_machine_or_suite_that_no_run_has_is_said(tmp_path):
    write(tmp_path, "20261121T120604Z_abc_default", engine_row(), suite="default")
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(), machine="other-8c", suite="tiny")
    for wanted in ({"suite": "defualt"}, {"machine": "cpu-4c"}, {"machine": "cpu-2c", "suite": "tiny"}):
        with messages.warns(frame.RecordWarning) as caught:
            assert suites.load_runs(tmp_path, **wanted).empty
        assert caught[0].filename == __file__
    assert len(suites.load_runs(tmp_path, machine="cpu-2c", suite="default")) == 1
    with messages.warns(frame.RecordWarning):
        assert suites.load_kernels(tmp_path, suite="kernel").empty


def test_a_folder_of_two_machines_mixed_schemas_and_damage_loses_nothing_that_can_be_read(tmp_path, root):
    one = write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(), records.summary(latency=LATENCY))
    write(tmp_path, "20261121T120605Z_abc_tiny", engine_row(latency=None, status="failed"), machine="other-8c")
    old = tmp_path / "runs" / "cpu-2c" / "20261121T000000Z_abc_default.jsonl"
    golden = (root / "tests/golden/records/schema-1-first.jsonl").read_text()
    old.write_text(golden.replace("amd-epyc-2c-39f1a0", "cpu-2c"))
    lines = one.read_text().splitlines()
    one.write_text("\n".join([lines[0], '{"schema": 2, "kind": "summary"', *lines[1:], '{"schema": 2, "ki']))
    newer = old.with_name("20261122T000000Z_abc_tiny.jsonl")
    newer.write_text(json.dumps({**json.loads(lines[0]), "schema": 99}) + "\n")
    with pytest.warns(frame.RecordWarning) as caught:
        rows = suites.load_runs(tmp_path)
    assert rows.groupby("machine").size().to_dict() == {"cpu-2c": 7, "other-8c": 1}
    problems = rows.attrs["problems"]
    assert [str(one.message) for one in caught] == problems
    assert len(problems) == 3
    assert re.search(r"20261122.*:1: schema 99 is newer than", problems[0])
    assert problems[1].startswith(f"{one}:2: not a JSON line")
    assert problems[2] == f"{one}: its last line is cut, so it lacks a row"
    with pytest.warns(frame.RecordWarning):
        assert set(suites.load_runs(tmp_path, machine="other-8c")["machine"]) == {"other-8c"}


def test_a_copy_of_a_run_counts_once(tmp_path):
    path = write(tmp_path, "20261121T120604Z_abc_tiny", engine_row())
    copy = tmp_path / "runs" / "other-8c" / path.name
    copy.parent.mkdir()
    copy.write_text(path.read_text())
    with messages.warns(frame.RecordWarning):
        assert len(suites.load_runs(tmp_path)) == 1
    path.rename(path.with_name("20261121T120605Z_abc_tiny.jsonl"))
    assert len(suites.load_runs(tmp_path)) == 2


def test_records_outside_of_a_results_folder_and_lines_nested_too_deeply_are_named(tmp_path):
    path = write(tmp_path, "20261121T120604Z_abc_tiny", engine_row())
    with messages.warns(frame.RecordWarning):
        assert suites.load_runs(path.parent).empty
    with path.open("a") as file:
        file.write("[" * 100_000 + "\n")
    with messages.warns(frame.RecordWarning):
        assert len(suites.load_runs(tmp_path)) == 1


def test_of_several_summaries_of_one_row_the_last_counts(tmp_path):
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(launches=9), engine_row(launches=7))
    assert suites.load_runs(tmp_path)["launches"].tolist() == [7]


def test_one_file_may_be_named_and_a_missing_folder_is_a_message(tmp_path):
    path = write(tmp_path, "20261121T120604Z_abc_tiny", engine_row())
    assert len(suites.load_runs(path)) == 1
    with messages.raises(UsageError):
        suites.load_runs(tmp_path / "none")


FAULTS = """
[[fault]]
reason = "it measured the wrong thing"
fixed = "def"
backends = ["torch_compile"]
runs = ["20261121T120604Z_abc_tiny"]
"""


def test_rows_from_before_a_known_fault_say_so(tmp_path, capsys):
    rows = [
        engine_row(),
        records.summary(latency=LATENCY),
        records.summary(backend="torch_compile[mode=x]", latency=LATENCY),
    ]
    write(tmp_path, "20261121T120604Z_abc_tiny", *rows)
    write(tmp_path, "20261122T120604Z_def_tiny", *rows)
    (tmp_path / "superseded.toml").write_text(FAULTS)
    found = suites.load_runs(tmp_path)
    told = found[found["superseded"].notna()]
    assert [(one.run[:8], one.backend) for one in told.itertuples()] == [("20261121", "torch_compile[mode=x]")]
    assert set(told["superseded"]) == {"it measured the wrong thing"}
    doubtful = found[found["best_peer_superseded"].notna()]
    assert [(one.run[:8], one.backend) for one in doubtful.itertuples()] == [("20261121", "engine")]
    assert len(suites.load_runs(tmp_path, superseded=False)) == 5
    with pytest.raises(SystemExit):
        main(["show", "20261121T120604Z_abc_tiny", "--results", str(tmp_path)])
    assert "superseded: 20261121T120604Z_abc_tiny: it measured the wrong thing" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["list", "runs", "--results", str(tmp_path), "--json"])
    assert [row["superseded"] for row in json.loads(capsys.readouterr().out)] == [
        None,
        ["torch_compile: it measured the wrong thing"],
    ]


def test_faults_are_known_of_a_file_that_is_named_from_its_own_folder(tmp_path, monkeypatch):
    write(
        tmp_path, "20261121T120604Z_abc_tiny", engine_row(), records.summary(backend="torch_compile", latency=LATENCY)
    )
    (tmp_path / "superseded.toml").write_text(FAULTS)
    (file,) = tmp_path.rglob("*.jsonl")
    monkeypatch.chdir(file.parent)
    assert len(suites.load_runs(file.name, superseded=False)) == 1


def test_a_damaged_list_of_faults_is_named(tmp_path):
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row())
    (tmp_path / "superseded.toml").write_text(FAULTS.replace("reason", "why"))
    with pytest.raises(UsageError, match=r"superseded\.toml: .*reason"):
        suites.load_runs(tmp_path)


def test_the_committed_list_of_faults_names_runs_that_exist_and_concerns_some_row_of_each(root):
    from suites.harness.record import superseded

    stored = {path.stem: path for path in store.all_run_files(root / "results")}
    faults = superseded.known(root / "results")
    assert len(faults.fault) == 3
    for fault in faults.fault:
        for run in fault.runs:
            assert any(fault.concerns(run, line) for line in store.read(stored[run]).summaries()), run


def test_the_command_prints_the_frame_as_csv(tmp_path, capsys):
    write(tmp_path, "20261121T120604Z_abc_tiny", engine_row(), records.summary(latency=LATENCY))
    with pytest.raises(SystemExit) as ended:
        main(["show", "20261121T120604Z_abc_tiny", "--csv", "--results", str(tmp_path)])
    assert not ended.value.code
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert read["backend"].tolist() == ["engine", "eager"]
    assert list(read)[: len(frame.ABOUT_RUN)] == [column.name for column in frame.ABOUT_RUN]


def test_the_lines_of_the_page_make_a_table_and_a_plot(root, tmp_path, monkeypatch):
    import matplotlib as mpl

    text = (root / "docs/results-format.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 10
    mpl.use("agg")
    (machine,) = re.findall(r'machine="([^"]+)"', code)
    folder = tmp_path / "results" / "runs" / machine  # only the runs that the lines choose from
    folder.mkdir(parents=True)
    for path in (root / "results" / "runs" / machine).glob("*_default.jsonl"):
        (folder / path.name).symlink_to(path)
    (tmp_path / "results" / "superseded.toml").symlink_to(root / "results" / "superseded.toml")
    monkeypatch.chdir(tmp_path)
    made = {}
    exec(code, made)  # the lines of a page of this repository
    assert made["table"].loc["bert/b1_s128/t1/fp32", "engine"] > 0
    assert "<svg" in (tmp_path / "engine.svg").read_text()


def test_importing_suites_imports_no_pandas(root):
    import subprocess
    import sys

    code = "import sys, suites; print('pandas' in sys.modules, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
