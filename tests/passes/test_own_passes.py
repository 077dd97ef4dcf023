"""Passes from a user's own file: their place, their versions, and every mistake in one line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from engine import installed, passes
from engine.passes import own
from tests import messages

NOTHING = "def run(graph):\n    return 0\n"
WITH_PASS = "from engine.passes.base import Pass\n" + NOTHING + "PASS = Pass({!r}, run{})\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_text(text, name="mine.py"):
        (tmp_path / name).write_text(text)
        return f"{name}:run"

    return write_text


def order(**fields):
    common, late = passes.stages(engine.Config(**fields))
    return [one.name for one in common], [one.name for one in late]


def test_a_function_alone_is_a_pass_at_the_end_of_the_common_stage(write):
    common, late = order(passes=(write(NOTHING),))
    assert common[-2:] == ["mine", "dead_code"]
    assert "mine" not in late


def test_a_function_of_another_name_is_called_so(write):
    write(NOTHING.replace("run", "tidy"))
    assert "tidy" in order(passes=("mine.py:tidy",))[0]


def test_a_pass_of_a_target_runs_in_its_stage(write):
    common, late = order(passes=(write(WITH_PASS.format("mine", ", target='cpu', after={'fuse_pointwise': 'x'}")),))
    assert "mine" not in common
    assert late[late.index("fuse_pointwise") + 1] == "mine"


def test_what_a_pass_must_precede_runs_after_it(write):
    common, _ = order(passes=(write(WITH_PASS.format("mine", ", before={'fuse_rope': 'x'}")),))
    assert common.index("mine") == common.index("fuse_rope") - 1


def test_two_passes_of_a_users_own_keep_their_constraints(write):
    write(WITH_PASS.format("one", ""), "one.py")
    write(WITH_PASS.format("two", ", before={'one': 'x'}"), "two.py")
    common, _ = order(passes=("one.py:run", "two.py:run"))
    assert common.index("two") < common.index("one")


def test_it_is_disabled_by_name_or_by_path(write):
    path = write(NOTHING)
    for name in ("mine", path):
        assert "mine" not in order(passes=(path,), disable=(name,))[0]
        assert order(pipeline=("fold_constants", path), disable=(name,))[0] == ["fold_constants"]


def test_a_pipeline_names_it_or_leaves_it_out(write):
    path = write(NOTHING)
    assert order(passes=(path,), pipeline=("mine", "dead_code"))[0] == ["mine", "dead_code"]
    assert order(passes=(path,), pipeline=("dead_code",))[0] == ["dead_code"]


MODEL, X = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.ones(2, 4)


def test_two_versions_of_a_file_are_told_apart(write, tmp_path):
    config = engine.Config(passes=(write(NOTHING),))
    first = engine.compile(MODEL, (X,), config)
    assert engine.compile(MODEL, (X,), config).run_digest == first.run_digest
    write(NOTHING + "# another version\n")
    second = engine.compile(MODEL, (X,), config)
    assert second.run_digest != first.run_digest
    assert second.report().passes != first.report().passes
    second.save(tmp_path / "p")
    assert engine.load(tmp_path / "p").run_digest == second.run_digest


def test_two_files_of_one_name_may_be_compared_in_one_process(write, tmp_path):
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        write(NOTHING + f"# {number}\n", f"{number}/mine.py")
    one, other = (engine.compile(MODEL, (X,), engine.Config(passes=(f"{n}/mine.py:run",))) for n in range(2))
    assert one.run_digest != other.run_digest


WRONG = {
    "no such file": ("", "gone.py:run"),
    "no such function": (NOTHING, "mine.py:rum"),
    "no function is named": (NOTHING, "mine.py:"),
    "a name and no path": (NOTHING, "fuse_gelu"),
    "no text": (NOTHING, 7),
    "not callable": ("run = 3", "mine.py:run"),
    "the name of another pass": (WITH_PASS.format("fuse_gelu", ""), "mine.py:run"),
    "a name that is none": (WITH_PASS.format("a b", ""), "mine.py:run"),
}


@pytest.mark.parametrize(("text", "path"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_one_error_that_names_it(write, text, path):
    write(text)
    with messages.raises(engine.ConfigError):
        engine.Config(passes=(path,))


QUOTED = {
    "a file that raises": ("1 / 0", "raised ZeroDivisionError"),
    "a file that is not valid Python": ("def", "raised SyntaxError"),
    "no argument": ("def run():\n    return 0\n", "with one argument: "),
    "two arguments": ("def run(a, b):\n    return 0\n", "with one argument: "),
}


@pytest.mark.parametrize(("text", "told"), QUOTED.values(), ids=QUOTED.keys())
def test_a_mistake_that_python_finds_is_one_error_with_its_words(write, text, told):
    with pytest.raises(engine.ConfigError, match=told):
        engine.Config(passes=(write(text),))


def test_two_passes_of_one_name_are_refused(write):
    write(NOTHING)
    write(WITH_PASS.format("mine", ""), "other.py")
    with messages.raises(engine.ConfigError):
        engine.Config(passes=("mine.py:run", "other.py:run"))


@pytest.mark.parametrize(
    "stated",
    [
        ", after={'fuse_epilogue': 'x'}, before={'fuse_rope': 'x'}",
        ", after={'channels_last': 'x'}",
        ", target='cpu', before={'fold_constants': 'x'}",
    ],
)
def test_constraints_that_no_place_satisfies_are_refused(write, stated):
    config = engine.Config(passes=(write(WITH_PASS.format("mine", stated)),))
    with messages.raises(engine.ConfigError):
        passes.stages(config)


def test_a_pass_of_another_target_is_refused(write):
    path = write(WITH_PASS.format("mine", ", target='elsewhere'"))
    with messages.raises(engine.ConfigError):
        passes.stages(engine.Config(passes=(path,)))


def test_a_saved_program_refuses_passes(write, tmp_path):
    path = write(NOTHING)
    engine.compile(MODEL, (X,)).save(tmp_path / "p")
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "p", config=engine.Config(passes=(path,)))


def test_installed_passes_that_cannot_be_imported_are_one_error(monkeypatch):
    point = installed.metadata.EntryPoint("broken", "no_such_package:PASS", own.GROUP)
    monkeypatch.setattr(installed.metadata, "entry_points", lambda group: [point])
    with pytest.raises(engine.ConfigError, match=r"entry point broken of enginebench\.passes.*uninstall"):
        own.installed()


@pytest.mark.parametrize("returned", ["None", "-5", "'two'", "True"])
def test_a_pass_returns_the_number_of_its_changes(write, returned):
    path = write(f"def run(graph):\n    return {returned}\n")
    with messages.raises(engine.ConfigError):
        engine.compile(MODEL, (X,), engine.Config(passes=(path,), pipeline=(path,)))


BREAKS = {
    "an error of the engine": "graph.emit('relu', [])",
    "no nodes": "graph.nodes.clear()",
    "another order": "graph.nodes.reverse()",
    "a node twice": "graph.nodes.append(graph.nodes[0])",
    "no outputs": "graph.outputs.clear()",
    "another output": "graph.outputs[0] = graph.emit('permute', graph.outputs, axes_order=(1, 0))",
    "another input": "graph.add_input('more', graph.inputs[0].type)",
}
BREAKS_IN_PYTHON = {
    "a raise": ("\n    return graph.nodes[0].no_such_name", r"it raised AttributeError: .* \(mine.py:3\)$"),
    "no node": ("graph.nodes.append(None)", "the graph cannot be read after it: AttributeError: "),
}


def compile_with(write, text, target, *, verify):
    source = f"def run(graph):\n    {text}\n    return 1\n"
    path = write(f"{source}from engine.passes.base import Pass\nPASS = Pass('mine', run, target={target})\n")
    engine.compile(MODEL, (X,), engine.Config(passes=(path,), pipeline=(path,), verify=verify))


@pytest.mark.parametrize(
    ("target", "verify"),
    [
        ("None", True),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("None", False), ("'cpu'", False), ("'cpu'", True))),
    ],
)
@pytest.mark.parametrize("text", BREAKS.values(), ids=BREAKS)
def test_a_pass_that_fails_or_breaks_the_graph_is_named_with_the_cause(write, text, target, verify):
    with messages.raises(engine.ConfigError):
        compile_with(write, text, target, verify=verify)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("target", ["None", "'cpu'"])
@pytest.mark.parametrize(("text", "told"), BREAKS_IN_PYTHON.values(), ids=BREAKS_IN_PYTHON)
def test_a_pass_that_fails_with_an_error_of_python_is_named_with_it(write, text, told, target, verify):
    with pytest.raises(engine.ConfigError, match=f"^pass 'mine': {told}"):
        compile_with(write, text, target, verify=verify)


# --- Config(verify=True) -------------------------------------------------------------------------------------------


def test_verify_changes_no_program():
    plain, checked = (engine.compile(MODEL, (X,), engine.Config(verify=on)) for on in (False, True))
    assert plain.run_digest == checked.run_digest


@pytest.mark.parametrize("check", ["engine.planner.verify.plan", "engine.targets.verify.order"])
def test_verify_checks_memory_and_order(monkeypatch, check):
    called = []
    monkeypatch.setattr(check, lambda *_: called.append(check))
    engine.compile(MODEL, (X,))
    assert not called
    engine.compile(MODEL, (X,), engine.Config(verify=True))
    assert called == [check]
