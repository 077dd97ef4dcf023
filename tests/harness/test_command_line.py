"""The command line as a user meets it: exit codes, messages, JSON, interruption and resuming."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import engine
from engine.processors import count_processors
from suites.cli import main
from suites.cli import run as run_command
from suites.harness.record import machine, store
from tests.harness import records
from tests.harness.commands import call

SUITE = """
name = "mini"
backends = ["eager"]
threads = 1
rounds = 3
samples_per_round = 1
[[models]]
name = "mlp"
shape = { batch = [1, 2] }
options = { widths = "16-16" }
"""


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "mini.toml"
    path.write_text(SUITE)
    return str(path)


def test_a_defect_of_the_engine_is_a_traceback_with_its_cause(capsys, monkeypatch):
    def compile_(*_arguments, **_keywords):
        try:
            {}["a rule"]
        except KeyError as error:
            raise engine.InternalError("two rules contradict") from error

    monkeypatch.setattr(engine, "compile", compile_)
    status, out, err = call(capsys, "profile", "mlp")
    assert status == 70
    assert out == ""
    assert err.startswith("Traceback (most recent call last):")
    assert "KeyError: 'a rule'" in err
    assert "InternalError: two rules contradict\nThis is a defect of the engine" in err


def test_a_mistake_of_the_user_is_one_line(capsys):
    status, out, err = call(capsys, "profile", "mlq")
    assert (status, out) == (2, "")
    assert err.startswith("enginebench: ")
    assert len(err.splitlines()) == 1


def test_an_error_that_quotes_an_exception_of_a_model_has_no_escape_sequences(capsys, tmp_path):
    path = tmp_path / "coloured.py"
    path.write_text('def factory():\n    raise ValueError("\\x1b[31mred\\x1b[0m\\x07")\n')
    status, _out, err = call(capsys, "profile", f"{path}:factory")
    told = f"enginebench: model '{path}:factory': factory() raised ValueError: red (coloured.py, line 2)\n"
    assert (status, err) == (2, told)


WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from suites.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(("package", "arguments"), [("typer", ["--help"]), ("torch", ["list", "models"])])
def test_a_package_that_is_not_installed_is_one_line_with_the_extra_that_has_it(package, arguments):
    command = [sys.executable, "-c", WITHOUT, package, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    advice = "pip install 'enginebench[suites]'"
    assert done.stderr == f"enginebench: the package {package} is not installed; install it with: {advice}\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_module_that_no_extra_installs_is_a_traceback(monkeypatch):
    monkeypatch.setattr("suites.cli.app.app", lambda **_keywords: __import__("no_such_module"))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        main([])


@pytest.mark.parametrize("kind", ["models", "suites", "backends", "switches", "ops"])
def test_everything_can_be_listed_for_people_and_for_machines(capsys, kind):
    status, out, _ = call(capsys, "list", kind)
    assert status == 0
    assert len(out.splitlines()) > 3
    status, out, _ = call(capsys, "list", kind, "--json")
    assert status == 0
    assert all("name" in row for row in json.loads(out))


def test_the_list_of_ops_shows_types_ops_and_kernels_of_each_call(capsys):
    _, out, _ = call(capsys, "list", "ops", "--json")
    (row,) = [row for row in json.loads(out) if row["name"] == "aten.exp.default"]
    assert row["dtypes"][0] == "float32"
    assert row["ops"] == ["exp"]
    assert row["targets"] == ["interpreter", "cpu"]
    assert row["kernels"]["exp"].endswith("generic vector, reference")


def test_listing_backends_imports_none_of_them(root):
    code = (
        "import sys\nfrom suites import backends\nlist(backends.BACKENDS)\n"
        "assert not {'torch', 'onnxruntime', 'openvino', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_the_command_line_starts_without_what_takes_long_to_import(root):
    slow = "{'scipy', 'pandas', 'torch', 'onnxruntime', 'openvino', 'transformers'}"
    code = f"import sys\nimport suites.cli.app\nassert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "transfomer"], "did you mean 'transformer'"),
        (["run", "default", "--only", "thread == 1"], "did you mean 'threads'"),
        (
            ["run", "transformer_sweep", "--only", "height == 1"],
            "Known: attention, backend, batch, case, causal, device",
        ),
        (
            ["run", "quick", "--only", "threads == 99"],
            "leaves no case of suite quick. Its fields: attention 'manual', 'sdpa'; backend 'eager'",
        ),
        (["run", "default", "--backends", "eagre"], "did you mean 'eager'"),
        (["run", "default", "--backends", "engine[disabel=x]"], "did you mean 'disable'"),
        (["run", "default", "--backends", "engine[disable=fuse_atention]"], "did you mean 'fuse_attention'"),
        (["run", "qwen4", "--threads", "1"], "unknown suite or model 'qwen4'"),
        (["run", "default", "--threads", "1"], "--threads is for a model"),
        (["run", "default", "--set", "batch=1,2"], "--set is for a model"),
        (["run", "minilm", "--threads", "1,1"], "each value once"),
        (["run", "minilm", "--threads", "0"], "threads[0]: expected at least 1, got 0"),
        (["run", "minilm", "--threads", "all"], "threads[0]: expected a whole number"),
        (["run", "minilm", "--set", "sequence"], "expected KEY=VALUE"),
        (["run", "minilm", "--set", "sequence=16,x"], "sequence='x' is no integer"),
        (["run", "transformer", "--set", "sequence=16,0"], "sequence=0 is no integer of at least 1"),
        (["run", "transformer", "--set", "sequence=0"], "sequence=0 is no integer of at least 1"),
        (["run", "minilm", "--set", "sequence=16,9999"], "at most 512"),
        (["run", "minilm", "--set", "sequense=16"], "did you mean 'sequence'"),
        (["run", "minilm", "--set", "sequence=16", "--set", "sequence=16"], "each value once"),
        (["profile", "mlp", "--set", "batch=1,2"], "--set batch: expected one value, got 2"),
        (["run", "minilm", "--precision", "fp32,bf61"], "did you mean 'bf16'"),
        (["profile", "mpl"], "did you mean 'mlp'"),
        (["profile", "mlp", "--set", "bach=1"], "did you mean 'batch'"),
        (["profile", "mlp", "--set", "batch"], "expected KEY=VALUE"),
        (["profile", "mlp", "--backends", "eagre"], "did you mean 'eager'"),
        (["show", "none"], "unknown run 'none'"),
        (["show", "--csv", "--markdown"], "--csv and --markdown: each is a form of the whole output; give one of them"),
        (["show", "--csv", "--into", "a.md"], "--csv and --into: each is a form of the whole output; give one of them"),
        (
            ["run", "mlp", "--backends", "engine[disable=a,disable=b]"],
            "name[key=value,...] with each key once",
        ),
        (["show", "--csv", "--json"], "--json and --csv: each is a form of the whole output; give one of them"),
        (["data", "fetch", "cifar1"], "did you mean 'cifar10'"),
        (["ablate", "brt"], "unknown suite or model 'brt'; did you mean 'bert'"),
        (["ablate", "bert", "--switches", "fuse_gelo"], "the nearest of"),
        (
            ["ablate", "bert", "--backend", "eager"],
            "`enginebench list switches` names backends that have some",
        ),
        (["ablate", "bert", "--backend", "onnxruntim"], "did you mean 'onnxruntime'"),
        (["ablate", "bert", "--set", "sequense=3"], "did you mean 'sequence'"),
        (["ablate", "bert", "--set", "sequence=many"], "sequence"),
        (["ablate", "default", "--threads", "2"], "a suite says it itself"),
        (["ablate", "mlp", "--csv", "/nowhere/a.csv"], "/nowhere/a.csv: cannot be written"),
    ],
)
def test_a_mistake_is_one_message_and_exit_2(capsys, tmp_path, arguments, told):
    where = ["--results", str(tmp_path)] if arguments[0] not in ("data", "accuracy", "profile") else []
    status, out, err = call(capsys, *arguments, *where)
    assert status == 2
    assert told in err
    assert err.startswith("enginebench: ")
    assert "Traceback" not in err
    assert out == ""
    assert not list(tmp_path.iterdir()), "told before anything is measured"


def test_an_unknown_kind_of_list_is_told_the_kinds(capsys):
    status, out, err = call(capsys, "list", "modles")
    assert (status, out) == (2, "")
    assert "'modles' is not one of 'models'" in err


def test_a_backend_that_is_named_twice_runs_once(capsys, suite, tmp_path):
    for names in ("eager,engine", "eager,engine,eager"):
        _, out, _ = call(capsys, "run", suite, "--backends", names, "--dry-run", "--results", str(tmp_path))
        assert "  eager, eager#2, engine\n" in out


def test_a_size_of_0_is_swept_where_the_model_gives_it_a_meaning(capsys):
    status, out, _ = call(capsys, "run", "minilm", "--set", "sequence=0,16", "--dry-run")
    assert status == 0
    assert "minilm/b1_s0/t1/fp32" in out
    assert "minilm/b1_s16/t1/fp32" in out


def test_an_unknown_option_exits_2(capsys):
    assert call(capsys, "run", "default", "--onyl", "x")[0] == 2
    assert call(capsys, "rnu")[0] == 2


def test_every_command_has_help_with_an_example(capsys):
    commands = ("run", "show", "compare", "ablate", "list", "profile", "machine", "data", "data list", "data fetch")
    for command in commands:
        status, out, _ = call(capsys, *command.split(), "--help")
        assert status == 0
        assert f"Example: enginebench {command}" in out


def test_the_version_names_the_commit(capsys):
    status, out, _ = call(capsys, "--version")
    assert status == 0
    assert out.startswith(f"enginebench {machine.versions()['enginebench']}")
    assert str(machine.revision()["commit"]) in out


def test_a_dry_run_lists_the_fields_for_only(capsys, suite, tmp_path):
    _, out, _ = call(capsys, "run", suite, "--dry-run", "--results", str(tmp_path))
    (line,) = [line for line in out.splitlines() if line.startswith("fields for --only: ")]
    assert "backend 'eager'; batch 1, 2; case 'mlp/b1/t1/fp32/widths=16-16'" in line
    assert "widths '16-16'" in line
    _, out, _ = call(capsys, "run", suite, "--dry-run", "--json", "--results", str(tmp_path))
    assert json.loads(out)[0]["fields"]["batch"] == [1, 2]
    _, out, _ = call(capsys, "run", "--help")
    assert "--dry-run lists the fields" in " ".join(out.replace("\u2502", " ").split())


@pytest.fixture
def planned(monkeypatch):
    """What ``enginebench run`` was about to measure: plans and results folders; nothing is measured."""
    found = []

    def note(plan, results, *_arguments, **_options):
        found.append((plan, results))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command.runner, "run", note)
    return found


def test_results_of_a_suite_elsewhere_go_to_the_current_folder_and_not_into_the_checkout(
    capsys, suite, planned, monkeypatch, tmp_path, root
):
    for folder, expected in ((tmp_path, tmp_path / "results"), (root, root / "results")):
        monkeypatch.chdir(folder)
        call(capsys, "run", suite)
        assert planned.pop()[1] == expected


def test_ctrl_c_before_anything_is_stored_says_so(capsys, suite, monkeypatch, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command.roofs, "measure", interrupt)
    status, out, err = call(capsys, "run", suite, "--results", str(tmp_path))
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; nothing was stored"
    assert not store.run_files(tmp_path)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_dry_run_tells_of_more_threads_than_processors(capsys, options, tmp_path):
    usable = count_processors()
    asked = ["run", "mlp", "--threads", f"{usable},1000", "--results", str(tmp_path), "--dry-run"]
    _, out, err = call(capsys, *asked, *options)
    assert err.startswith("cannot run here: mlp/b1/t1000/fp32: no backend can (eager: needs 1000 processors; ")
    assert err.count("\n") == 1
    assert "may use" not in out


def test_a_dry_run_counts_one_case_as_one(capsys, suite, tmp_path):
    for only, told in (("batch == 2", "mini: 1 case, "), ("batch > 0", "mini: 2 cases, ")):
        status, out, _ = call(capsys, "run", suite, "--only", only, "--dry-run", "--results", str(tmp_path))
        assert (status, told in out) == (0, True)


@pytest.mark.parametrize("text", ["", '{"schema": 1', "hello\n"], ids=["empty", "cut", "foreign"])
def test_a_file_that_cannot_be_read_is_left_out_unless_it_is_named(text, capsys, tmp_path):
    folder = store.runs_folder(tmp_path)
    for second in range(2):
        with store.Writer(folder / f"20261121T10111{second}Z_abc_mini.jsonl") as writer:
            cases = {records.CASE: ["eager"]}
            writer.append(records.environment(suite="mini", plan={"cases": cases}), records.summary())
    damaged = folder / "20261123T101112Z_abc_mini.jsonl"
    damaged.write_text(text)
    for arguments in (["show", "last"], ["show", "last:mini"], ["compare", "20261121T101110Z_abc_mini", "last"]):
        status, out, err = call(capsys, *arguments, "--results", str(tmp_path))
        assert (status, bool(out)) == (0, True), err
        assert err.startswith(f"left out: {damaged}:1: ")
        assert "Delete the file" in err
    status, _, err = call(capsys, "show", damaged.stem, "--results", str(tmp_path))
    assert (status, err.startswith(f"enginebench: {damaged}:1: ")) == (2, True)


def test_a_dry_run_lists_cases_and_an_estimate(capsys, suite, tmp_path):
    status, out, _ = call(capsys, "run", suite, "--dry-run", "--results", str(tmp_path))
    assert status == 0
    assert "mlp/b1/t1/fp32/widths=16-16  eager, eager#2" in out
    assert "2 cases, 8 worker processes" in out
    assert not (tmp_path / "runs").exists()
    _, out, _ = call(capsys, "run", suite, "--dry-run", "--generations", "10", "--results", str(tmp_path))
    assert "2 cases, 40 worker processes" in out


def test_a_dry_ablation_lists_what_would_be_turned(capsys, tmp_path):
    arguments = (
        "ablate",
        "minilm",
        "--switches",
        "pass,planner=no_reuse",
        "--set",
        "sequence=8",
        "--dry-run",
        "--json",
    )
    status, out, _ = call(capsys, *arguments, "--results", str(tmp_path))
    found = json.loads(out)
    assert status == 0
    assert found["cases"] == ["minilm/b1_s8/t1/fp32"]
    assert {"switch": "fuse_gelu", "kind": "pass", "alone": True} in found["switches"]
    assert {"switch": "planner=no_reuse", "kind": "planner", "alone": False} in found["switches"]
    assert found["estimate_s_at_most"] > 0
    assert not (tmp_path / "runs").exists()


def test_an_ablation_of_a_suite_takes_its_cases(capsys, suite, tmp_path):
    status, out, _ = call(capsys, "ablate", suite, "--only", "batch == 2", "--dry-run", "--results", str(tmp_path))
    assert status == 0
    assert "mlp/b2/t1/fp32/widths=16-16" in out
    assert "mlp/b1/" not in out


def test_machine_answers_in_json(capsys):
    status, out, _ = call(capsys, "machine", "--json")
    assert status == 0
    found = json.loads(out)
    assert {"machine", "cpu", "isa", "versions", "commit", "dirty"} <= set(found)
    if count_processors() > 1:
        assert 0 < found["handover_s"]["nearest"] <= found["handover_s"]["farthest"] < 1e-2


class Running:
    """``enginebench run`` in a process of its own."""

    def __init__(self, root, results, *arguments):
        command = [sys.executable, "-m", "suites.cli", "run", *arguments, "--results", str(results)]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        pipe = subprocess.PIPE
        # Tests that a shell started in the background ignore Ctrl-C, and so would what they start.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=root)
        signal.signal(signal.SIGINT, before)
        self.results = results

    def lines(self):
        """Lines stored so far."""
        found = [path.read_text() for path in self.results.glob("runs/*/*.jsonl")]
        return [json.loads(line) for line in "".join(found).splitlines()]

    def wait_for(self, kind, count):
        until = time.monotonic() + 120
        while sum(line["kind"] == kind for line in self.lines()) < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)

    def end(self):
        out, err = self.process.communicate(timeout=180)
        return self.process.returncode, out, err


@pytest.mark.long
def test_a_killed_run_goes_on(root, suite, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    killed = Running(root, results, suite)
    killed.wait_for("samples", 2)
    killed.process.send_signal(signal.SIGKILL)
    killed.end()
    (path,) = store.all_run_files(results)
    assert call(capsys, "run", "--resume", str(path))[0] == 0
    keys = [(line["case"], line["backend"], line["generation"]) for line in killed.lines() if line["kind"] == "samples"]
    assert len(keys) == len(set(keys)) == 2 * 2 * 2


def test_an_interrupted_run_goes_on_where_it_stopped(root, suite, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    stopped = Running(root, results, suite, "--json")
    stopped.wait_for("samples", 2)  # the first generation of the first case
    stopped.process.send_signal(signal.SIGINT)
    status, _, err = stopped.end()
    assert status == 130
    assert "stored so far" in err
    assert f"records go to {store.runs_folder(results)}" in err
    (path,) = store.all_run_files(results)
    assert err.endswith(f"to continue: enginebench run --resume {path}\n")
    assert "Traceback" not in err

    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, "run", "--resume", path.stem)
    assert status == 0, err
    (answer,) = json.loads(out)
    assert [line["status"] for line in answer["summaries"]] == ["ok"] * 4
    assert len(list(results.glob("runs/*/*.jsonl"))) == 1
    keys = [
        (line["case"], line["backend"], line["generation"]) for line in stopped.lines() if line["kind"] == "samples"
    ]
    assert sorted(keys) == sorted(set(keys)), "nothing that was stored is measured again"
    assert len(keys) == 2 * 2 * 2

    monkeypatch.chdir(tmp_path)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "a complete run keeps no arguments"
    told = f"enginebench: {path.stem} cannot be resumed: it is complete\n"
    assert call(capsys, "run", "--resume", path.stem) == (2, "", told)
    status, out, _ = call(capsys, "show", "last", "--results", str(results))
    assert status == 0
    assert out.startswith(f"run {store.run_files(results)[-1].stem}\n")
    assert "A/A floor" in out
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- table -->\nthe former one\n<!-- /table -->\nafter\n")
    assert call(capsys, "show", "--into", str(readme), "--results", str(results))[0] == 0
    text = readme.read_text()
    assert text.startswith("before\n<!-- table -->\n")
    assert "A/A floor" in text.splitlines()[2]
    assert "the former one" not in text
    assert re.search(r"^\| \*?mlp\xa0b2\*? \|", text, re.MULTILINE), text  # in italics where the machine was disturbed
    assert text.endswith("<!-- /table -->\nafter\n")
    status, _, err = call(capsys, "show", "--svg", str(tmp_path / "table.svg"), "--results", str(results))
    assert (status, "nothing to draw: no case has a time of the engine" in err) == (2, True)
