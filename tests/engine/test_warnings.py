"""Warnings of the engine: what they say, where they point to, and when they are issued."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import engine
from engine.runtime import warn

X = torch.linspace(-2, 2, 32).reshape(4, 8)
MLP = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


@pytest.fixture
def issued(monkeypatch):
    """The warnings of the test, as in a process that has issued none yet."""
    monkeypatch.setattr(warn, "_ISSUED", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def slow(issued):
    return [one for one in issued if one.category is engine.SlowKernelWarning]


@pytest.mark.parametrize("precision", ["bf16", "int8_weight"])
def test_slow_kernels_are_said_once_per_process_at_the_line_that_compiles(issued, precision):
    for _ in range(2):
        program = engine.compile(MLP, (X,), engine.Config(precision=precision))
    (one,) = slow(issued)
    report = program.report()
    count = f"{report.reference_launches} of {report.launches} launches"
    assert 0 < report.reference_launches <= report.launches
    assert str(one.message).startswith(f"Sequential: {count} (")
    assert "use reference kernels, which are slow, because there are no fast kernels" in str(one.message)
    assert one.filename == __file__
    assert issubclass(engine.SlowKernelWarning, engine.EngineWarning)


def test_half_precision_weights_are_said_when_loading_too(issued, tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval().half()
    engine.compile(model, (X.half(),)).save(tmp_path / "p.engine")
    assert len(slow(issued)) == 1
    warn._ISSUED.clear()
    engine.load(tmp_path / "p.engine")
    assert len(slow(issued)) == 2


def test_nothing_is_said_where_nothing_is_slow_or_slow_kernels_were_asked_for(issued):
    class Positions(nn.Module):
        """A float32 model with one integer operation that only a reference kernel computes."""

        def forward(self, x):
            return x @ x.mT + torch.arange(4) % 3

    engine.compile(MLP, (X,))
    engine.compile(MLP, (X,), engine.Config(target="interpreter", precision="bf16"))
    engine.compile(MLP, (X,), engine.Config(variant={"linear": "reference"}))
    engine.compile(Positions().eval(), (torch.randn(4, 256),))
    assert slow(issued) == []


def test_a_profile_marks_launches_of_reference_kernels():
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).eval()
    program = engine.compile(model, (X,), engine.Config(precision="bf16"))
    profile = program.profile(X, runs=1, roofs=False)
    marked = [node for node in profile.nodes if node.is_reference]
    assert len(marked) == program.report().reference_launches < len(profile.nodes)
    assert {node.op for node in marked} == {"linear"}
    text = str(profile)
    assert sum("_reference r " in line for line in text.splitlines()) == len(marked)
    share = sum(node.share_of_time for node in marked)
    launches = f"r: {len(marked)} of {len(profile.nodes)} launches, {share:.1%} of the time, use reference kernels"
    assert text.splitlines()[-1] == f"{launches}, which are slow."
    assert "use reference kernels" not in str(engine.compile(MLP, (X,)).profile(X, runs=1, roofs=False))
