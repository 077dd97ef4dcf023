"""What --resume says where an unfinished run of another model has the same suite name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suites.harness.declare import spec
from suites.harness.record import machine, store
from suites.harness.run import plan, resume
from tests.harness import records

MINE = """
import torch

def net(width=2):
    return torch.nn.Linear(width, 2).eval(), (torch.zeros(1, width),)

conv = dense = net
"""


@pytest.fixture
def plan_of(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)

    def make(name, **arguments):
        suite = spec.of_model(f"{tmp_path}/mine.py:{name}", arguments, backends=["engine"], baseline="engine")
        return replace(plan.make(suite), command=("ablate", f"{tmp_path}/mine.py:{name}"))

    return make


def leave_unfinished(made, results):
    code = {**machine.revision(), "suite": made.suite.name}
    first = records.environment(**code, plan=made.to_dict(), plan_digest=made.digest)
    path = store.new_path(results, made.suite.name, first)
    with store.Writer(path) as writer:
        writer.append(first)
    return path.stem


def test_an_unfinished_run_of_another_function_of_the_file_is_called_that(plan_of, tmp_path):
    run = leave_unfinished(plan_of("conv"), tmp_path / "results")
    assert resume.explain_refusal(plan_of("dense"), tmp_path / "results") == (
        f"nothing to resume: the unfinished run {run} measures mine.py:conv, not mine.py:dense. "
        "Give mine.py:conv to continue it, or leave out --resume to start a new run"
    )


def test_for_a_suite_the_command_is_told_though_its_options_choose_another_model(plan_of, tmp_path):
    started = replace(plan_of("conv"), command=("run", "own.toml"), options=["--only", "model == 'mine.py:conv'"])
    leave_unfinished(started, tmp_path / "results")
    asked = replace(plan_of("dense"), command=("run", "own.toml"), options=["--only", "model == 'mine.py:dense'"])
    told = resume.explain_refusal(asked, tmp_path / "results")
    assert "To continue it: enginebench run own.toml --only " in told
    assert "mine.py:conv" in told


@pytest.mark.parametrize("begun", [("conv", "dense"), ("dense", "conv")])
def test_an_unfinished_run_of_the_model_itself_comes_before_one_of_another(plan_of, tmp_path, begun):
    runs = {name: leave_unfinished(plan_of(name), tmp_path / "results") for name in begun}
    told = resume.explain_refusal(plan_of("dense", width=3), tmp_path / "results")
    assert f"the unfinished run {runs['dense']} " in told
    assert "mine.py:conv" not in told
