"""engine@PATH: a copy of the package, with planted changes, in an environment made of links, beside this checkout's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

import engine
from engine import _native
from suites import backends
from suites.backends import versions
from suites.cli import main
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.harness.present import overview
from suites.harness.present.report import write_markdown
from suites.harness.record import store
from suites.harness.run import plan, reporter, runner
from suites.harness.run.session import Worker, WorkerFailed
from suites.other_engine import launch
from tests import messages
from tools import compare_engines

SUITE = """
name = "two"
backends = ["engine", "engine@{path}"]
rounds = 3
[[models]]
name = "mlp"
options = {{ widths = "16-16-16" }}
"""

SLOWER = """
import time as _time

_call = Program.__call__


def _wait(self, *arguments, **named):
    _time.sleep(0.002)
    return _call(self, *arguments, **named)


Program.__call__ = _wait
"""

OTHER_PASSES = """
import sys as _sys
from dataclasses import replace as _replace

_add(_replace(PASSES.pop("fuse_rope"), name="rotate"))
del _sys.modules["engine.switches"]._registered["pass"]["fuse_rope"]
PIPELINE = tuple(name for name in PIPELINE if name not in ("fuse_rope", "fuse_epilogue"))
"""

# As an editable installation does: every module of both packages comes from one checkout, whatever sys.path says.
HOOK = """
import sys
from importlib.machinery import PathFinder


class Finder:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("engine", "suites"):
            return PathFinder.find_spec(name, [{checkout!r}] if "." not in name else path)


sys.meta_path.insert(0, Finder)
"""


def link_environment(folder, *, checkout=None, version="0.0.7"):
    """An environment in `folder` with this one's interpreter and packages, and an editable `checkout` if any."""
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    installed = packages / f"enginebench-{version}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: enginebench\nVersion: {version}\n")
    if checkout is not None:
        (packages / "hook_of_checkout.py").write_text(HOOK.format(checkout=str(checkout)))
        (packages / "editable.pth").write_text("import hook_of_checkout\n")
    return packages


def copy_engine(folder, changes=None, *, built=True):
    """The package `engine` in `folder`; `changes`: file of the package -> text to put behind it."""
    shutil.copytree(
        Path(engine.__file__).parent, folder / "engine", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    if built:
        shutil.copy(_native.__file__, folder / "engine")
    for name, text in (changes or {}).items():
        with (folder / "engine" / name).open("a") as file:
            file.write(text)


def make_checkout(folder, changes=None, *, built=True):
    """A checkout whose own harness cannot be imported, installed editable into its .venv."""
    folder.mkdir()
    copy_engine(folder, changes, built=built)
    (folder / "suites").mkdir()
    (folder / "suites" / "__init__.py").write_text("raise RuntimeError('the harness of the other checkout')\n")
    link_environment(folder / ".venv", checkout=folder)
    return folder


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A checkout of an older engine: slower, with another pass and without fuse_epilogue in its pipeline."""
    folder = tmp_path_factory.mktemp("versions") / "old"
    return make_checkout(folder, {"__init__.py": SLOWER, "passes/__init__.py": OTHER_PASSES})


@pytest.fixture(scope="module")
def outcome(old, root, tmp_path_factory):
    """A run of both engines, started by a user whose PYTHONPATH names this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(root))
        suite = spec.parse(SUITE.format(path=old), "two.toml")
        return runner.run(plan.make(suite), tmp_path_factory.mktemp("results"), reporter.Reporter())


@pytest.fixture(scope="module")
def rows(outcome):
    """The summaries; `other` is that of the other version."""
    return {"other" if "@" in line.backend else line.backend: line for line in outcome.summaries}


def named(path, options=""):
    return versions.resolve(f"engine@{path}{options}", Path.cwd())


def test_both_engines_take_turns_and_their_speed_is_of_paired_rounds(rows):
    assert {line.status for line in rows.values()} == {"ok"}, [line.reason for line in rows.values()]
    (against,) = rows["engine"].versions
    assert against.backend == rows["other"].backend
    assert against.verdict == "faster", "the other one waits in each call"
    assert against.speed.low > 1
    assert rows["other"].speed.value < rows["engine"].speed.value


def test_what_runs_is_the_other_engine_with_this_harness(rows):
    assert rows["other"].launches > rows["engine"].launches, "its pipeline has no fuse_epilogue"
    assert rows["other"].run_digest != rows["engine"].run_digest
    assert rows["other"].latency.min > 0.002
    assert rows["other"].import_s > 0
    assert {rows[name].flops for name in ("eager", "other")} == {rows["engine"].flops}


def test_another_version_is_no_peer(rows):
    assert rows["engine"].best_peer.backend == "eager"
    assert rows["other"].best_peer is None
    assert rows["other"].versions is None


def test_the_record_names_the_version_and_no_folder(old, outcome, rows):
    text = outcome.path.read_text()
    assert str(old.parent) not in text
    told = store.read(outcome.path).environment.plan.engines[rows["other"].backend]
    assert rows["other"].backend == f"engine@0.0.7+{told.digest[:8]}"
    assert (told.version, told.commit, told.dirty) == ("0.0.7", None, None)
    assert told.packages["torch"] == metadata.version("torch")


def test_tables_head_a_column_with_the_version_and_show_the_speed(outcome, rows):
    label = rows["other"].backend
    described = overview.describe(outcome.summaries, outcome.environment, None)
    assert described.columns == ("engine", "eager", label)
    assert described.leads == ("vs best other", f"vs {label}")
    speed = rows["engine"].versions[0].speed
    cell = described.lines[0].leads[1]
    assert cell.value == f"{speed.value:.2f}x" if speed.value < 9.995 else cell.value
    assert cell.verdict == "faster"
    text = write_markdown(overview.make_report(outcome.summaries, outcome.environment, None))
    assert f"| case | vs best other |  | vs {label} |  | unit | engine | eager | {label} |" in text.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert f"`{label}`: enginebench 0.0.7, with the same packages." in text


def test_a_stored_run_is_shown_and_compared_without_its_folder(outcome, rows, monkeypatch, capsys, tmp_path):
    copy = tmp_path / f"20990101T000000Z{outcome.path.name[16:]}"
    copy.write_bytes(outcome.path.read_bytes())
    monkeypatch.setattr(versions, "_named", {})
    monkeypatch.setattr(versions, "_find", lambda path: pytest.fail(f"looked for {path}"))
    for command in (["show", str(outcome.path)], ["compare", str(outcome.path), str(copy)]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--results", str(outcome.path.parent)])
        assert not ended.value.code
        assert "0.0.7" in capsys.readouterr().out


def test_the_other_version_may_be_the_baseline(old, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text(SUITE.format(path="/nowhere").replace(', "engine@/nowhere"', ""))
    suite = spec.load(tmp_path / "two.toml")
    made = plan.make(suite, baseline=f"engine@{os.path.relpath(old)}")
    (_case, refs), *_ = made.cases
    assert [ref.label for ref in refs] == [named(old), f"{named(old)}#2", "engine"]
    assert made.baseline == named(old)


def test_a_path_is_relative_to_the_suite_file_or_to_the_current_folder(old, tmp_path, monkeypatch):
    (tmp_path / "two.toml").write_text(SUITE.format(path=f"{os.path.relpath(old, tmp_path)}[disable=rotate]"))
    monkeypatch.chdir("/")
    assert spec.load(tmp_path / "two.toml").backends == ["engine", f"{named(old)}[disable=rotate]"]
    monkeypatch.chdir(old.parent)
    assert versions.resolve("engine@old", Path.cwd()) == named(old)


def test_options_and_turns_are_those_of_the_other_version(old):
    label = named(old, "[disable=rotate]")
    backends.check(BackendRef.parse(label))
    with pytest.raises(UsageError, match=r"bin/python: unknown pass 'fuse_rope'"):
        backends.check(BackendRef.parse(named(old, "[disable=fuse_rope]")))
    with pytest.raises(UsageError, match="did you mean 'disable'"):
        backends.check(BackendRef.parse(named(old, "[disabel=rotate]")))
    names = {switch.name for switch in backends.switches(BackendRef.parse(named(old)))}
    assert "rotate" in names
    assert "fuse_rope" not in names


def test_an_ablation_turns_the_switches_of_the_other_version(old, tmp_path, capsys):
    arguments = ["ablate", "mlp", "--backend", f"engine@{old}", "--switches", "rotate", "--dry-run"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--results", str(tmp_path)])
    assert not ended.value.code
    assert "rotate" in capsys.readouterr().out


def git(folder, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_checkout_is_named_by_its_commit_and_whether_files_differ_from_it(tmp_path):
    checkout = make_checkout(tmp_path / "checkout")
    (checkout / ".gitignore").write_text(".venv\n*.so\n__pycache__\n")
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "x")
    commit = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert versions._find.__wrapped__(checkout).name == f"engine@{commit}"
    (checkout / "engine" / "new.py").write_text("")
    changed = versions._find.__wrapped__(checkout)
    assert changed.name == f"engine@{commit}-dirty"
    assert (changed.facts["commit"], changed.facts["dirty"]) == (commit, True)


def test_an_environment_without_a_checkout_is_named_by_version_and_content(tmp_path, root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root))  # must not hide the engine that is installed there
    digests = []
    for name, changes in (("one", {}), ("other", {"sizes.py": "\n# changed\n"})):
        copy_engine(link_environment(tmp_path / name, version="9.1"), changes)
        found = versions._find(tmp_path / name)
        digests.append(found.facts["digest"])
        assert found.name == f"engine@9.1+{digests[-1][:8]}"
    assert digests[0] != digests[1]


def test_a_checkout_whose_environment_holds_an_installed_copy_is_not_named_by_its_commit(tmp_path):
    checkout = tmp_path / "checkout"
    copy_engine(link_environment(checkout / ".venv"))
    git(checkout, "init", "-q")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "x")
    assert versions._find(checkout).name.startswith("engine@0.0.7+")


def test_two_folders_of_one_name_are_refused(tmp_path):
    for name in ("one", "other"):
        copy_engine(link_environment(tmp_path / name))
    named(tmp_path / "one")
    with pytest.raises(UsageError, match=r"two backends would both be called engine@0\.0\.7\+"):
        named(tmp_path / "other")


def plant_nothing(folder):
    """No such folder."""


def plant_an_empty_folder(folder):
    folder.mkdir()


def plant_an_engine_that_fails(folder):
    make_checkout(folder, {"errors.py": "\nraise OSError('first line\\nsecond line')\n"})


def plant_an_engine_without_extension(folder):
    make_checkout(folder, built=False)


def plant_an_engine_that_is_too_old(folder):
    make_checkout(folder, {"config.py": "\ndel Setting\n"})


def plant_an_engine_of_elsewhere(folder):
    link_environment(folder, checkout=make_checkout(folder.with_name("elsewhere")))


def plant_an_interpreter_that_ends(folder):
    link_environment(folder)
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text("#!/bin/sh\necho no library >&2\nexit 3\n")
    (folder / "bin" / "python").chmod(0o755)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (plant_nothing, "expected a commit of this checkout, or a folder with .venv/bin/python or bin/python"),
        (plant_an_empty_folder, "expected a commit of this checkout, or a folder with "),
        (plant_an_engine_that_fails, "engine cannot be imported there: OSError: first line second line"),
        (plant_an_engine_without_extension, "engine cannot be imported there: "),
        (plant_an_engine_that_is_too_old, "this engine is too old for this harness"),
        (plant_an_engine_of_elsewhere, "/elsewhere/engine/__init__.py there, which is not under "),
        (plant_an_interpreter_that_ends, "ended with exit status 3: no library"),
    ],
)
def test_a_folder_that_cannot_serve_is_one_line_and_exit_2(plant, told, tmp_path, capsys):
    folder = tmp_path / "planted"
    plant(folder)
    with pytest.raises(SystemExit) as ended:
        main(["run", "quick", "--backends", f"engine@{folder}", "--results", str(tmp_path / "results")])
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert re.match(f"enginebench: (engine@)?{folder}", err)
    assert told in err
    assert len(err.splitlines()) == 1
    assert out == ""
    assert not (tmp_path / "results").exists()


CASE = Case("mlp", {"batch": 1}, options={"widths": "16-16-16"})


def ask(ref, folder, *commands):
    folder.mkdir(exist_ok=True)
    with Worker(CASE, ref, folder, folder) as worker:
        return [worker.ask(command, 120) for command in commands]


def test_a_worker_refuses_an_engine_that_is_imported_from_elsewhere(old, tmp_path, monkeypatch):
    ref = BackendRef.parse(named(old))
    moved = replace(versions.get(ref.name), roots=(str(tmp_path / "other"),))
    monkeypatch.setitem(versions._named, ref.name, moved)
    with messages.raises(WorkerFailed):
        ask(ref, tmp_path / "scratch", "load")


def test_what_an_older_engine_lacks_is_the_reason(tmp_path):
    checkout = make_checkout(tmp_path / "older", {"__init__.py": "\ndel compile\n"})
    with pytest.raises(WorkerFailed) as caught:
        ask(BackendRef.parse(named(checkout)), tmp_path / "scratch", "load", "prepare")
    assert caught.value.reason == (
        "prepare: this version of the engine, or its environment, lacks what the harness uses: "
        "AttributeError: module 'engine' has no attribute 'compile'"
    )


def test_only_what_the_harness_asks_for_is_called_lacking():
    def inside_of_the_engine():
        engine.Config().no_such_field  # noqa: B018  # reading it raises

    def reason(function):
        with pytest.raises(AttributeError) as caught:
            function()
        return launch.explain(caught.value)

    assert reason(inside_of_the_engine).startswith("AttributeError: ")
    assert "lacks" in reason(lambda: backends.check(None))


def test_the_list_and_the_help_mention_other_versions(capsys):
    for command, told in ((["list", "backends", "--json"], "engine@PATH"), (["run", "--help"], "engine@PATH")):
        with pytest.raises(SystemExit):
            main(command)
        assert told in capsys.readouterr().out


OWN_SUITE = """name = "{name}"
backends = ["engine", "engine@HEAD{options}"]
baseline = "engine"
threads = [1]
[[models]]
name = "{model}"
"""


@pytest.fixture
def unbuilt(tmp_path, monkeypatch):
    """A checkout with one commit; the test fails if it is built."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    monkeypatch.setattr(versions.machine, "checkout", lambda: tmp_path)
    monkeypatch.setattr(versions.revisions, "prepare", lambda *_: pytest.fail("a commit is built"))
    return tmp_path


def write_suite(folder, name, model="mlp", options=""):
    path = folder / f"{name}.toml"
    path.write_text(OWN_SUITE.format(name=name, model=model, options=options))
    return str(path)


def test_a_dry_run_names_a_commit_and_builds_nothing(unbuilt, capsys):
    commit = git(unbuilt, "rev-parse", "--short=12", "HEAD")
    asked = ["run", "mlp", "--threads", "1", "--dry-run", "--results", str(unbuilt / "results"), "--backends"]
    for options, shown in (("", ""), ("[disable=some_pass]", "[disable=some_pass]")):
        with pytest.raises(SystemExit) as ended:
            main([*asked, f"engine,engine@HEAD{options}"])
        out, err = capsys.readouterr()
        assert (ended.value.code or 0, err) == (0, "")
        assert f"engine@{commit}{shown}" in out.splitlines()[0]
        assert f"engine@{commit}" not in versions._named, "a real run has to build it"
    with pytest.raises(SystemExit) as ended:
        main([*asked, "engine,engine@no-such-revision"])
    assert ended.value.code == 2
    assert "expected a commit of this checkout" in capsys.readouterr().err


def test_other_mistakes_are_told_before_a_commit_is_built(unbuilt, monkeypatch, capsys):
    monkeypatch.chdir(unbuilt)
    misspelt = write_suite(unbuilt, "misspelt", model="mpl")
    versioned = ["--backends", "engine,engine@HEAD"]
    for asked, told in (
        (["run", write_suite(unbuilt, "own"), misspelt], "models[0].name: unknown model 'mpl'; did you mean 'mlp'?"),
        (["run", "mlp", *versioned, "--only", "thread == 1"], "unknown field 'thread'"),
        (["run", "mlp", "--backends", "engine@HEAD,engin"], "unknown backend 'engin'"),
        (["ablate", "mlp", "--backend", "engine@HEAD", "--only", "thread == 1"], "unknown field 'thread'"),
        (["ablate", "mpl", "--backend", "engine@HEAD"], "did you mean 'mlp'?"),
        (["accuracy", "gpt2", "--backends", "engine@HEAD"], "accuracy scores the engine of this checkout alone"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(asked)
        assert ended.value.code == 2
        assert told in capsys.readouterr().err.replace("\n", " ")


def test_versions_with_options_pass_the_plan_that_builds_nothing(unbuilt, monkeypatch, capsys):
    """The same label in two suites, and the same commit without options as their baseline: three uses of one name."""
    commit = git(unbuilt, "rev-parse", "--short=12", "HEAD")
    own = [write_suite(unbuilt, name, options="[disable=some_pass]") for name in ("one", "two")]
    asked = ["run", *own, "--baseline", "engine@HEAD", "--results", str(unbuilt / "results")]
    with pytest.raises(SystemExit) as ended:
        main([*asked, "--dry-run"])
    out, err = capsys.readouterr()
    assert (ended.value.code or 0, err) == (0, "")
    assert f"engine@{commit}[disable=some_pass]" in out
    built = []

    def stop_at(root, asked_commit, _):
        built.append((root, asked_commit[:12]))
        raise versions.revisions.CannotBuild("it is enough to know that it was asked for")

    monkeypatch.setattr(versions.revisions, "prepare", stop_at)
    with pytest.raises(SystemExit) as ended:
        main(asked)
    assert ended.value.code == 2
    assert "it is enough to know that it was asked for" in capsys.readouterr().err.replace("\n", " ")
    assert built == [(unbuilt, commit)]


def test_a_commit_and_a_folder_of_this_commit_are_refused_before_a_build(tmp_path, monkeypatch):
    checkout = make_checkout(tmp_path / "checkout")
    (checkout / ".gitignore").write_text("*.so\n.venv\n__pycache__\n")
    git(checkout, "init", "-q")
    git(checkout, "add", "--all")
    git(checkout, "commit", "-q", "-m", "x")
    monkeypatch.setattr(versions.machine, "checkout", lambda: checkout)
    for first, second in (("HEAD", checkout), (checkout, "HEAD")):
        monkeypatch.setattr(versions, "_named", {})
        with versions.without_building():
            versions.resolve(f"engine@{first}", tmp_path)
            with pytest.raises(UsageError, match=r"would both be called engine@.*\. Leave one of them out"):
                versions.resolve(f"engine@{second}", tmp_path)


def run_comparison(root, old, *names):
    command = [sys.executable, "-m", "tools.compare_engines", str(old), *names]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "1000"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.long
def test_the_tool_finds_a_copy_equal(root, tmp_path):
    ended = run_comparison(root, make_checkout(tmp_path / "copy"), "mlp")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = [line for line in ended.stdout.splitlines() if "mlp/" in line]
    assert row.split()[1:] == ["same"] * 5


@pytest.mark.long
def test_the_tool_names_what_differs_and_ends_with_1(root, tmp_path):
    changed = "\n_run = Program.__call__\nProgram.__call__ = lambda self, *x: _run(self, *x) * (1 + 2**-20)\n"
    old = make_checkout(tmp_path / "old", {"__init__.py": changed, "passes/__init__.py": OTHER_PASSES})
    ended = run_comparison(root, old, "mlp")
    assert ended.returncode == 1
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("mlp/")]
    cells = re.split(r"\s{2,}", row.strip())
    outputs, launches = cells[1], cells[2]
    assert outputs == "4 of 4 differ"
    before, after = map(int, launches.split(" -> "))
    assert before > after
    assert "relu" in cells[5], "a kernel that runs only where no epilogue takes its place"


def test_the_tool_compares_bits_types_and_shapes():
    import numpy as np

    difference = compare_engines.difference
    one = np.array([0.0, np.nan], np.float32)
    assert difference([([one], ["float32"])], [([one.copy()], ["float32"])]) == "same"
    for other, kind in ((np.array([-0.0, np.nan], np.float32), "float32"), (one[None], "float32"), (one, "bfloat16")):
        assert difference([([one], ["float32"])], [([other], [kind])]) == "1 of 1 differ"


WORKER_MODULES = (
    "suites.harness.run.worker",
    "suites.harness.measure.job",
    "suites.harness.record.machine",
    "suites.other_engine.describe",
    "suites.other_engine.launch",
)
OLDEST = {"engine.errors", "engine.suggest", "engine.torch_ops"}
"""What an engine of any version has, beside its public functions."""


def test_a_worker_imports_nothing_of_the_engine_that_older_versions_lack():
    """The package itself is replaced by an empty one, so that only what `suites` imports by name shows."""
    code = f"""
import sys, types
package = types.ModuleType("engine")
package.__path__ = {list(engine.__path__)!r}
sys.modules["engine"] = package
import importlib
for name in {WORKER_MODULES!r}:
    importlib.import_module(name)
from suites import models
for name in models.names():
    models.get(name)
print(*(name for name in sys.modules if name.startswith("engine.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= OLDEST
