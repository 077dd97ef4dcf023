"""What is said of an unfinished run of another model whose suite has the same name."""

from __future__ import annotations

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
        return plan.make(suite)

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
        f"nothing to resume: the unfinished run {run} is of mine.py:conv, and this one would be of mine.py:dense. "
        "Name the model of the unfinished run, or start a new run without --resume"
    )


@pytest.mark.parametrize("begun", [("conv", "dense"), ("dense", "conv")])
def test_an_unfinished_run_of_the_model_itself_comes_before_one_of_another(plan_of, tmp_path, begun):
    runs = {name: leave_unfinished(plan_of(name), tmp_path / "results") for name in begun}
    told = resume.explain_refusal(plan_of("dense", width=3), tmp_path / "results")
    assert f"the unfinished run {runs['dense']} " in told
    assert "mine.py:conv" not in told
