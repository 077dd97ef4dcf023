"""Whatever lies in a results folder: each fault is named, on stderr and on the page, and all the rest is shown."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from suites.cli import main
from suites.harness.record import store
from suites.site.pages.machines import MOST_PROBLEMS
from tests.forms import shorten
from tests.site.test_build import TIMES, read_data, write_run

NAME = "20261121T120604Z_abc_tiny.jsonl"


@pytest.fixture
def results(tmp_path):
    """A results folder with one good run."""
    write_run(tmp_path / "results", "20261120T120604Z", model="good", case="good/b1/t1/fp32")
    return tmp_path / "results"


@pytest.fixture
def build(results, capsys):
    """Builds the site by the command: its problems, which stderr and the page name too, and the cases it shows."""

    def run():
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["site", "--results", str(results), "--out", str(results.parent / "site"), "--json"])
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        problems = json.loads(out)["problems"]
        assert all(f"left out or doubtful: {problem}" in err for problem in problems)
        page = results.parent / "site" / "machines.html"
        named = json.loads((page.parent / "data" / "machines-problems.json").read_text())
        assert [row["problem"] for row in named] == problems
        assert page.read_text().count("<li>") >= min(len(problems), MOST_PROBLEMS)
        entries = read_data(page.with_name("index.html")).get("entries", [])
        assert "good/b1/t1/fp32" in [entry["case"] for entry in entries]
        return problems, {entry["case"]: entry for entry in entries}

    return run


def change_lines(path, change):
    """Rewrite each line as `change` says, which gets the line as JSON."""
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b'{"benchmarks": [{"name": "a"}]}\n', "not a line of a record", id="another-tool"),
        pytest.param(b"[1]\n", "not a line of a record", id="a-list", marks=pytest.mark.long),
        pytest.param(b"\x00\xff\xfe\n\x93NUMPY", "not a JSON line", id="binary"),
        pytest.param(b"", "not a JSON line", id="empty"),
        pytest.param(
            b'{"schema": 99, "kind": "environment"}\n', "newer than", id="a-newer-schema", marks=pytest.mark.long
        ),
        pytest.param(
            b'{"schema": 5, "kind": "guess"}\n',
            "not a line of a record: KeyError: 'guess'",
            id="an-unknown-kind",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_file_that_is_no_record_is_named(results, build, content, message):
    (results / "runs" / "cpu-2c" / NAME).write_bytes(content)
    (problem,), entries = build()
    assert NAME in problem
    assert message in problem
    assert len(entries) == 1


def test_files_where_no_run_lies_are_named(results, build):
    folder = results / "runs" / "cpu-2c"
    strays = [results / "runs" / "loose.jsonl", folder / "deep" / "run.jsonl"]
    (folder / "deep").mkdir()
    for stray in strays:
        stray.write_text("{}")
    problems, _ = build()
    assert sorted(problem.partition(":")[0] for problem in problems) == sorted(map(str, strays))


def test_a_file_that_cannot_be_read_is_named(results, build):
    (results / "runs" / "cpu-2c" / NAME).symlink_to(results / "missing")
    (results / "runs" / "cpu-2c" / f"a-{NAME}").mkdir()
    problems, _ = build()
    assert ["Is a directory" in problems[1], "No such file" in problems[0]] == [True, True]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_and_a_folder_without_permission_are_named(results, build):
    write_run(results, "20261121T120604Z")
    write_run(results, "20261121T120604Z", machine="other-4c")
    (results / "runs" / "cpu-2c" / NAME).chmod(0)
    (results / "runs" / "other-4c").chmod(0)
    try:
        problems, _ = build()
    finally:
        (results / "runs" / "other-4c").chmod(0o700)
    assert len(problems) == 2
    assert all("Permission denied" in problem for problem in problems)


def test_damaged_lines_are_named_and_the_other_lines_are_shown(results, build):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME
    lines = path.read_text().splitlines()
    lines[1], lines[4] = lines[1][:50], lines[4].replace('"generation": ', '"generations": ')
    path.write_text("\n".join(lines) + '\n{"cut')
    problems, entries = build()
    assert [problem.split(": ")[0].rpartition("/")[2] for problem in problems] == [f"{NAME}:2", f"{NAME}:5", NAME]
    assert "its last line is cut" in problems[2]
    assert set(entries["mlp/b1/t1/fp32"]["cells"]) == set(TIMES)


@pytest.mark.parametrize("value", shorten(["NaN", "Infinity", "1e999", "0.0", "-1.0", '"nan"'], "NaN", "-1.0"))
def test_a_time_that_is_no_positive_number_is_named(results, build, value):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME
    text = path.read_text()
    assert '"p50": 0.0015' in text
    path.write_text(text.replace('"p50": 0.0015', f'"p50": {value}'))
    (problem,), entries = build()
    assert NAME in problem
    assert "number" in problem or "not a JSON line" in problem
    assert set(entries["mlp/b1/t1/fp32"]["cells"]) == {"engine", "eager"}


def test_numbers_that_are_too_long_and_halves_of_characters_are_named(results, build):
    write_run(results, "20261121T120604Z")
    write_run(results, "20261122T120604Z", machine="other-4c")
    path = results / "runs" / "cpu-2c" / NAME
    other = results / "runs" / "other-4c" / NAME.replace("1121", "1122")
    path.write_text(path.read_text().replace('"memory_bytes": ', f'"memory_bytes": {"9" * 400}'))
    other.write_text(other.read_text().replace('"cpu": "x"', '"cpu": "\\ud800"'))
    problems, _ = build()
    assert "memory_bytes: expected a number below" in problems[0]
    assert "not a JSON line" in problems[1]


def test_a_second_copy_of_a_run_is_named_and_counts_once(results, build):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME
    copy = results / "runs" / "a-copy" / NAME
    copy.parent.mkdir()
    shutil.copy(path, copy)
    problems, _ = build()
    assert problems == [f"{copy}: left out, because {path} is the same run"]


def test_a_folder_that_does_not_name_the_machine_is_shown(results, build):
    write_run(results, "20261121T120604Z", machine="unknown")
    (results / "runs" / "unknown").rename(results / "runs" / "renamed")
    problems, entries = build()
    assert problems == []
    assert entries["mlp/b1/t1/fp32"]["machine"] == "unknown"


def test_two_runs_in_one_file_are_named(results, build):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME
    path.write_text(path.read_text() * 2)
    (problem,), _ = build()
    assert "expected one line of kind `environment`" in problem


def test_every_earlier_schema_is_shown(results, build, root):
    folder = results / "runs" / "old"
    folder.mkdir()
    files = sorted((root / "tests" / "golden" / "records").glob("schema-*.jsonl"))
    for file in files:
        change_machine = json.loads(file.read_text().splitlines()[0])["machine"]
        (results / "runs" / change_machine).mkdir(exist_ok=True)
        shutil.copy(file, results / "runs" / change_machine)
    problems, entries = build()
    assert problems == []
    measured = [run for run in map(store.read, files) if run.summaries() and "ablat" not in run.environment.suite]
    assert measured
    assert {row.case for run in measured for row in run.summaries()} <= set(entries)


@pytest.mark.parametrize(
    "text",
    shorten(
        ["</script><img src=x>", "<!--<script>", "a\u2028\u0000'\"&amp;", "日本語 🚀 ü", "__proto__"],
        "<!--<script>", "a\u2028\u0000'\"&amp;",
    ),
)  # fmt: skip
def test_any_text_is_shown_as_it_is(results, build, text):
    write_run(results, "20261121T120604Z", model=text, case=f"{text}/b1", backends={"engine": 0.001, text: 0.002})

    def fail_one(line):
        return line | ({"status": "failed", "latency": None, "reason": text} if line["kind"] == "summary" else {})

    write_run(results, "20261122T120604Z", model=text, case=f"{text}/b2")
    change_lines(results / "runs" / "cpu-2c" / NAME.replace("1121", "1122"), fail_one)
    problems, entries = build()
    assert problems == []
    assert entries[f"{text}/b1"]["model"] == text
    assert text in entries[f"{text}/b1"]["cells"]
    for path in (results.parent / "site").glob("*.html"):
        found = path.read_text()
        assert found.count("<script") == found.count("</script>")
        assert "<img" not in found
        assert "<!--" not in found


def test_names_of_models_that_no_file_can_have_get_pages_of_their_own(results, build):
    names = ["m" * 400, "m" * 399 + "n", "Bert", "bert", "日本", "日本語", ".."]
    for number, model in enumerate(names):
        write_run(results, f"202611{10 + number}T120604Z", model=model, case=f"{model}/b1")
    _, entries = build()
    pages = [entries[f"{model}/b1"]["page"] for model in names]
    assert len({page.lower() for page in pages}) == len(names)
    assert all((results.parent / "site" / page).is_file() for page in pages)


def test_many_problems_are_all_in_the_raw_numbers_and_the_page_stays_short(results, build):
    path = results / "runs" / "cpu-2c" / NAME
    write_run(results, "20261121T120604Z")
    with path.open("a") as file:
        file.write("damaged\n" * 1000)
    problems, _ = build()
    assert len(problems) == 1000
    page = (results.parent / "site" / "machines.html").read_text()
    assert "800 more, which the raw numbers have" in page
    assert page.count("not a JSON line") == MOST_PROBLEMS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--results", "missing"), "no such file or folder"),
        (("--results", "empty"), "no runs; measure something first"),
        (("--out", "file"), "neither a site nor an empty folder"),
        (("--out", "file/site"), "cannot be written"),
        (("--out", "/proc/site"), "cannot be written"),
        (("--out", "mine"), "neither a site nor an empty folder"),
    ],
)
def test_places_that_cannot_be_read_or_written_are_a_message(results, capsys, monkeypatch, given, message):
    folder = results.parent
    monkeypatch.chdir(folder)
    (folder / "file").write_text("mine")
    (folder / "empty").mkdir()
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["site", "--results", str(results), "--out", "site", *given])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert (folder / "file").read_text() == (folder / "mine" / "thesis.txt").read_text() == "mine"


def test_a_results_folder_that_is_a_file_is_refused(results, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("mine")
    for given in (next((results / "runs").glob("*/*.jsonl")), tmp_path / "thesis.txt"):
        with pytest.raises(SystemExit) as ended:
            main(["site", "--results", str(given), "--out", str(tmp_path / "site"), "--json"])
        assert ended.value.code == 2
        assert f"{given}: is a file; expected the folder of results" in capsys.readouterr().err
        assert not (tmp_path / "site").exists()


def test_a_truncated_copy_does_not_displace_the_complete_run(results, build):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME
    complete = results / "runs" / "elsewhere" / NAME
    complete.parent.mkdir()
    shutil.copy(path, complete)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]))
    problems, entries = build()
    assert f"{path}: left out, because {complete} is the same run" in problems
    assert set(entries["mlp/b1/t1/fp32"]["cells"]) == set(TIMES)


def test_lines_without_times_are_in_no_comparison(results, build):
    write_run(results, "20261121T120604Z")
    path = results / "runs" / "cpu-2c" / NAME

    def empty(line):
        if (line["kind"], line.get("backend"), line.get("generation")) == ("samples", "eager", 1):
            line["seconds"] = []
        if (line["kind"], line.get("backend")) == ("summary", "eager"):
            line["latency"] = None
        return line

    change_lines(path, empty)
    problems, entries = build()
    assert problems == []
    assert entries["mlp/b1/t1/fp32"]["best"]


def test_a_folder_without_a_readable_run_makes_no_site_and_the_files_in_it_are_named(tmp_path, capsys):
    stray = tmp_path / "results" / "runs" / "cpu-2c" / "20261121T120604Z_abc_tiny.jsonl"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["site", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "site")])
    problem, told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert problem.startswith(f"left out or doubtful: {stray}")
    assert told.startswith(f"enginebench: {tmp_path / 'results'}: no runs; measure something first")
    assert not (tmp_path / "site").exists()
