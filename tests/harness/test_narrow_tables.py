"""Tables on narrow outputs: nothing is cut off, and no line is longer. Widths that nobody can print in."""

from __future__ import annotations

import ast
import io
import re

import pytest
from rich.console import Console

from suites.cli import compare, output
from suites.harness.judge import gate
from suites.harness.present.ablation_table import make_report
from suites.harness.present.report import print_report
from suites.harness.record import lookup, store
from suites.harness.record.commits import CommitRecord
from suites.harness.record.schema import AblationRecord
from tests.forms import shorten
from tests.harness.commands import call

COLUMNS = 40


def test_a_profile_fits_a_narrow_output_and_keeps_every_launch(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    status, out, _err = call(capsys, "profile", "mlp", "--set", "widths=16-16-16")
    assert status == 0
    assert max(map(len, out.splitlines())) <= COLUMNS
    assert out.count("kernel: f32_linear__") == 2
    for name in ("output", "us", "time", "GFLOP/s", "GB/s", "of roof", "module", "source"):
        assert out.count(f"  {name}: ") == 2, name
    assert re.search(r"^thread +busy us +idle us +busy$", out, re.MULTILINE)
    monkeypatch.delenv("COLUMNS")
    assert re.search(r"^op +kernel +output", call(capsys, "profile", "mlp")[1], re.MULTILINE)


@pytest.mark.parametrize(
    "suite",
    shorten(
        ["ablate_transformer", "ablate_threads", "ablate_passes", "ablate_transformer_pairs"],
        "ablate_threads", "ablate_transformer_pairs",
    ),
)  # fmt: skip
def test_an_ablation_fits_a_narrow_output_and_keeps_its_numbers(suite, root):
    run = store.read(next(path for path in store.all_run_files(root / "results") if path.stem.endswith(f"_{suite}")))
    texts = {}
    for columns in (COLUMNS, 200):
        stream = io.StringIO()
        console = Console(file=stream, width=columns, color_system=None)
        print_report(console, make_report(run.of(AblationRecord), run.environment, run.started))
        texts[columns] = stream.getvalue()
    assert "\u2026" not in texts[COLUMNS]
    assert max(map(len, texts[COLUMNS].splitlines())) <= COLUMNS
    intervals = [re.findall(r"\[\d+\.\d+, \d+\.\d+\]", " ".join(text.split())) for text in texts.values()]
    assert len(intervals[0]) > 0
    assert all(interval in intervals[1] for interval in intervals[0])


@pytest.mark.parametrize("columns", shorten([60, 80, 100, 120], 60))
def test_a_history_breaks_no_word(columns, root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    run = store.read(next(path for path in store.all_run_files(root / "results") if path.stem.endswith("_history")))
    _, out, _err = call(capsys, "show", run.name, "--results", str(root / "results"))
    assert max(map(len, out.splitlines())) <= columns
    subjects = {word for commit in run.of(CommitRecord) for word in commit.subject.split() if len(word) <= columns - 4}
    assert len(subjects) > 20
    assert subjects <= set(out.split())


def test_the_titles_of_kernels_and_launches_fit_a_narrow_output(newest, root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = [name for kind, name in newest.items() if "kernels" in kind or "launches" in kind]
    assert len(shown) == 2
    for name in shown:
        _, out, _err = call(capsys, "show", name, "--results", str(root / "results"))
        title = out.partition("\n\n")[0]
        assert max(map(len, title.splitlines())) <= 60
        assert title.split()[:2] == ["run", name]


@pytest.fixture(scope="module")
def newest(root):
    """Kind of run -> the newest stored one. Runs of one suite are of one kind."""
    paths = sorted(store.all_run_files(root / "results"), key=lambda path: path.stem)
    runs = map(store.read, {path.stem.split("_", 2)[2]: path for path in paths}.values())
    return {lookup.describe_kind(run): run.name for run in sorted(runs, key=lambda run: run.name)}


def _check_ends(out):
    assert out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("columns", shorten([COLUMNS, 110, 180], COLUMNS))
def test_no_line_of_a_stored_run_ends_with_blanks(columns, newest, root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = 0
    for name in newest.values():
        for options in ([], ["--details"]):
            status, out, _err = call(capsys, "show", name, *options, "--results", str(root / "results"))
            if status == 0 and out:  # some kinds have no details, and some runs no table
                _check_ends(out)
                shown += 1
    assert shown > 4
    measured = [path.stem for path in store.all_run_files(root / "results") if path.stem.endswith("_quick")]
    _check_ends(call(capsys, "show", measured[-1], "--plot", "--results", str(root / "results"))[1])
    _check_ends(call(capsys, "show", measured[-1], "--case", "attention", "--results", str(root / "results"))[1])


@pytest.mark.parametrize("columns", [COLUMNS, 180])
@pytest.mark.parametrize(
    "command",
    [
        ["list", "models"],
        ["list", "backends"],
        pytest.param(["list", "runs"], marks=pytest.mark.long),
        ["list", "runs", "--limit", "9"],
        ["machine"],
    ],
)
def test_no_line_of_a_list_ends_with_blanks(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    _check_ends(call(capsys, *command)[1])


@pytest.mark.parametrize("columns", [COLUMNS, 180])
def test_no_line_of_a_comparison_ends_with_blanks(columns, root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    accepted = gate.read(root / "results" / "baselines.toml")
    found = {
        (case, label): gate.Program({**row, "launches": row.get("launches", 0) + 1, "arena_bytes": 1})
        for case, rows in accepted.counts.items()
        for label, row in rows.items()
    }
    found["mlp/b1/t1/fp32", "engine[isa=neon]"] = gate.Program(None, "unavailable", "isa neon needs another processor")
    monkeypatch.setattr(compare, "_count", lambda _suite: found)
    status, out, _err = call(capsys, "compare", "--gate", "--results", str(root / "results"))
    assert status == 1
    _check_ends(out)


def test_only_one_function_lets_rich_print_lines(root):
    """rich fills wrapped and padded lines up with blanks, so all use `write_paragraph` or `Table.to_terminal`."""
    found = []
    for path in (root / "suites").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "print":
                is_whole = any(one.arg in ("soft_wrap", "end") for one in node.keywords)
                if node.args and not is_whole:
                    found.append(f"{path.relative_to(root)}: {ast.unparse(node)}")
    assert found == []


def test_a_plain_table_wraps_between_words_and_becomes_blocks_where_a_name_would_be_cut(monkeypatch, capsys):
    rows = [{"run": "20261124T045631Z_default", "state": "3 of 12 rows"}, {"run": "x", "state": "complete"}]
    monkeypatch.setenv("COLUMNS", "34")
    output.print_table(rows)
    assert "20261124T045631Z_default  3 of 12\n" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "30")
    output.print_table(rows)
    assert capsys.readouterr().out == "20261124T045631Z_default\n  state: 3 of 12 rows\nx\n  state: complete\n\n"


@pytest.mark.parametrize("columns", shorten(range(20, 120), *range(20, 120, 7)))
def test_a_plain_table_cuts_no_word_off(columns, monkeypatch, capsys):
    path = "/home/user/.cache/enginebench/provisioned"
    rows = [
        {"name": "provisioned", "summary": "files that backends make once a machine", "megabytes": 1.4, "folder": path},
        {"name": "gguf", "summary": "models that were written for llama.cpp", "megabytes": 6147.0, "folder": path},
    ]
    monkeypatch.setenv("COLUMNS", str(columns))
    output.print_table(rows)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= columns
    words = [word for row in rows for value in row.values() for word in str(value).split() if len(word) <= columns - 2]
    assert all(printed.count(word) >= words.count(word) for word in words)
