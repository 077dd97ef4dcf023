"""What the command line writes if it is interrupted early, if its output cannot be written, and of unfinished runs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from suites.cli import main
from suites.harness.declare.spec import of_model
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.run import ablate, runner, session
from suites.harness.run.reporter import Reporter
from tests.forms import shorten
from tests.harness import records
from tests.harness.commands import call

INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores Ctrl-C

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from suites.cli import main
main(["show", "last"])
"""


@pytest.mark.parametrize(
    "module", shorten(["engine", "numpy", "typer", "rich.console", "pydantic"], "engine", "rich.console")
)
def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(module, root):
    command = [sys.executable, "-c", INTERRUPTED, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def interrupt(*_arguments, **_keywords):
    raise KeyboardInterrupt


def test_ctrl_c_while_an_ablation_makes_its_programs_ends_with_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(session.Worker, "ask", interrupt)
    told = "interrupted; nothing was stored\n"
    assert call(capsys, "ablate", "mlp", "--results", str(tmp_path)) == (130, "", told)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_an_ablation_makes_pairs_names_what_is_stored(tmp_path, monkeypatch):
    stored = ablate.Outcome([tmp_path / "run.jsonl"], records.environment(), [])
    invocation = Invocation()
    invocation.keep(tmp_path / "run.jsonl")
    monkeypatch.setattr(ablate._Programs, "singles", lambda _: [])
    monkeypatch.setattr(ablate, "_timed", lambda *_arguments, **_keywords: stored)
    monkeypatch.setattr(ablate._Programs, "pairs", interrupt)
    suite = of_model("mlp", {}, backends=["engine"])
    cases = [case for case, _ in suite.cases()]
    request = ablate.Request(suite, cases, ablate.of_backend("engine", ["fuse_gelu"]), pairs=2)
    with pytest.raises(runner.Interrupted) as stop:
        ablate.run(request, tmp_path, Reporter(), invocation)
    assert stop.value.path == tmp_path / "run.jsonl"


def test_ctrl_c_in_a_command_that_stores_nothing_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("suites.cli.profile._profiled", interrupt)
    assert call(capsys, "profile", "mlp") == (130, "", "interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    shorten([["show", "last"], ["show", "last", "--csv"], ["show", "last", "--json"], ["--help"]], ["show", "last"]),
)
def test_an_answer_that_cannot_be_written_is_one_line(arguments, root, tmp_path):
    first = records.environment(plan={"cases": {records.CASE: ["eager"]}})
    with store.Writer(store.new_path(tmp_path / "results", "tiny", first)) as writer:
        writer.append(first, records.summary())
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "suites.cli", *arguments]
    with Path("/dev/full").open("w") as full:
        pipe = subprocess.PIPE
        done = subprocess.run(
            command, stdout=full, stderr=pipe, text=True, timeout=120, check=False, cwd=tmp_path, env=environment
        )
    told = "enginebench: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, told)


LONG = """
from suites.cli import guard
from suites.cli.output import console
guard(lambda: [console().print("a row") for _ in range(9)] and 3, "long")
"""


@pytest.mark.parametrize(
    ("command", "status"),
    shorten(
        [
            (["-m", "suites.cli", "list", "ops"], 1),
            (["-m", "suites.cli", "list", "ops", "--json"], 1),
            (["-m", "suites.cli", "list", "backends", "--json"], 1),
            (["-m", "suites.cli", "list", "suites"], 1),
            (["-m", "suites.cli", "data", "list"], 1),
            (["-m", "suites.cli", "--help"], 1),
            (["-m", "suites.cli", "show", "none"], 2),
            (["-c", LONG], 3),
        ],
        (["-m", "suites.cli", "list", "suites"], 1),
        (["-c", LONG], 3),
    ),
)
def test_a_command_that_measures_goes_on_without_a_reader_and_others_end_quietly(command, status, root, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot be written" not in done.stderr
    assert "Exception ignored" not in done.stderr


MINI = """
name = "mini"
backends = ["eager"]
threads = 1
rounds = 3
samples_per_round = 1
generations = 2
[[models]]
name = "mlp"
shape = { batch = [1] }
options = { widths = "16-16" }
"""


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        pytest.param(["run", "mini.toml"], 1, marks=pytest.mark.long),
        pytest.param(
            ["ablate", "mlp", "--set", "widths=16-16", "--switches", "fuse_epilogue", "--generations", "2"],
            1,
            marks=pytest.mark.long,
        ),
        pytest.param(["profile", "mlp", "--set", "widths=16-16", "--record"], 1, marks=pytest.mark.long),
        (["accuracy", "mlp", "--set", "widths=16-16", "--precision", "fp32"], 0),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_without_a_reader_stores_its_records_and_ends_as_usual(arguments, stored, root, tmp_path):
    (tmp_path / "mini.toml").write_text(MINI)
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "suites.cli", *arguments]
    done = subprocess.run(
        command, stdout=writer, stderr=writer, timeout=300, check=False, cwd=tmp_path, env=environment
    )
    os.close(writer)
    runs = [store.read(path) for path in store.all_run_files(tmp_path / "results")]
    assert (done.returncode, len(runs), [run.unfinished for run in runs]) == (0, stored, [""] * stored)


def test_a_current_folder_that_was_removed_is_one_line(root, tmp_path):
    (tmp_path / "gone").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = f"rmdir ../gone && {sys.executable} -m suites.cli list suites"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path / "gone",
        env=environment,
    )  # fmt: skip
    told = "enginebench: the current folder does not exist any more; change to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["compare", "--gate", "--baselines", os.devnull], "a device, not a file"),
        (["compare", "--accept", "x", "--suite", "quick", "--baselines", os.devnull], "a device, not a file"),
        (["show", "last", "--into", os.devnull], "a device, not a file; expected a page with the markers"),
    ],
)
def test_a_device_is_not_read_because_it_may_have_no_end(arguments, told, tmp_path, monkeypatch, capsys):
    first = records.environment(plan={"cases": {records.CASE: ["eager"]}})
    with store.Writer(store.new_path(tmp_path / "results", "tiny", first)) as writer:
        writer.append(first, records.summary())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert (ended.value.code, capsys.readouterr().err) == (2, f"enginebench: {os.devnull}: {told}\n")


def test_an_error_of_another_file_is_no_fault_of_the_output(monkeypatch, tmp_path):
    monkeypatch.setattr("suites.cli.app.app", lambda **_keywords: (tmp_path / "none").read_text())
    with pytest.raises(FileNotFoundError, match="none"):
        main([])


UNFINISHED = "Unfinished: 1 of 3 rows. To continue: enginebench run --resume "


@pytest.mark.parametrize(
    "options",
    shorten([[], ["--details"], ["--case", "mlp"], ["--markdown"], ["--json"], ["--csv"]], [], ["--json"]),
)
def test_an_unfinished_run_is_shown_as_such_in_every_form(capsys, tmp_path, options):
    first = records.environment(plan={"cases": {records.CASE: ["eager"], "mlp/b2/t1/fp32": ["eager", "engine"]}})
    path = store.new_path(tmp_path, "tiny", first)
    with store.Writer(path) as writer:
        writer.append(first, records.summary())
    Invocation("run", ["tiny.toml"]).keep(path)
    status, out, err = call(capsys, "show", path.stem, *options, "--results", str(tmp_path))
    assert status == 0
    if options in (["--json"], ["--csv"]):
        assert err == f"{path.stem}: {UNFINISHED}{path}\n"
        assert "Unfinished" not in out
    else:
        assert (UNFINISHED.strip() in " ".join(out.split()), err) == (True, "")
    (row,) = json.loads(call(capsys, "list", "runs", "--json", "--results", str(tmp_path))[1])
    assert (row["rows"], row["state"]) == (1, "1 of 3 rows")


def test_a_run_whose_last_line_was_cut_off_is_shown_as_unfinished_and_a_complete_one_is_not(capsys, tmp_path):
    first = records.environment(plan={"cases": {records.CASE: ["eager"]}})
    path = store.new_path(tmp_path, "tiny", first)
    with store.Writer(path) as writer:
        writer.append(first, records.summary())
    assert "Unfinished" not in call(capsys, "show", path.stem, "--results", str(tmp_path))[1]
    with path.open("a") as file:
        file.write('{"schema"')
    told = "Unfinished: 1 of 1 rows, and a line that was cut off."
    assert told in call(capsys, "show", path.stem, "--results", str(tmp_path))[1]


def test_a_run_without_a_finished_case_is_shown_as_such(capsys, tmp_path):
    first = records.environment(plan={"cases": {records.CASE: ["eager", "engine"]}})
    path = store.new_path(tmp_path, "tiny", first)
    with store.Writer(path) as writer:
        writer.append(first)
    for options in ([], ["--details"], ["--json"], ["--markdown"]):
        status, _, err = call(capsys, "show", path.stem, *options, "--results", str(tmp_path))
        assert (status, "no case is finished. Unfinished: 0 of 2 rows." in err) == (2, True)


def test_runs_are_listed_newest_first_and_no_more_than_asked(capsys, root, tmp_path):
    status, out, _ = call(capsys, "list", "runs", "--limit", "4", "--json", "--results", str(root / "results"))
    assert status == 0
    shown = [row["run"] for row in json.loads(out)]
    assert shown == sorted((path.stem for path in store.all_run_files(root / "results")), reverse=True)[:4]
    assert call(capsys, "list", "runs", "--results", str(tmp_path))[1] == f"no runs under {tmp_path}\n"
    file = tmp_path / "file"
    file.write_text("")
    told = f"enginebench: {file}: is a file; expected the folder of results\n"
    assert call(capsys, "list", "runs", "--results", str(file)) == (2, "", told)


ONLY_ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
]


@pytest.mark.parametrize(
    ("form", "settings"),
    shorten(
        itertools.product(("--details", "--csv", "--json", "--markdown", "--plot"), ONLY_ASCII),
        ("--details", ONLY_ASCII[0]), ("--markdown", ONLY_ASCII[1]),
    ),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_run_is_shown_where_the_output_has_only_ascii(form, settings, root, tmp_path):
    first = records.environment(cpu="B\N{LATIN SMALL LETTER O WITH DIAERESIS}se")
    with store.Writer(store.new_path(tmp_path, "tiny", first)) as writer:
        writer.append(first, records.summary(), records.summary(backend="engine", note="\N{GREEK SMALL LETTER MU}"))
    environment = {**os.environ, "PYTHONPATH": str(root), **settings}
    command = [sys.executable, "-m", "suites.cli", "show", "last", form, "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    printed = done.stdout.decode("ascii")
    escaped = {"--csv": "\\u03bc", "--json": "B\\u00f6se"}
    assert escaped.get(form, "B\\xf6se") in printed
