"""Single rewrites of passes as switches: each has a name of its own, and what is left out is left out alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import exporter
from engine.graph import Rewrite
from suites import models


class Block(nn.Module):
    """Two linears with an epilogue each, in modules of their own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = (nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(2))

    def forward(self, x):
        return self.down(self.up(x)) + x


X = torch.randn(5, 24, generator=torch.Generator().manual_seed(0))
OWN_PASS = """
def run(graph):
    count = 0
    for node in graph.candidates():
        if node.op.name == "relu":
            twice = graph.emit("relu", [node.operand("x")], before=node, source=node.source)
            graph.replace(node.output, twice)
            graph.remove([node])
            count += 1
    return count
"""


def compile_block(*disable, **fields):
    return engine.compile(Block().eval(), (X,), engine.Config(disable=disable, **fields))


def test_a_rewrite_has_the_name_of_its_value_and_its_module():
    found = [one for one in compile_block().rewrites if one.name == "fuse_epilogue"]
    assert found == [
        Rewrite("fuse_epilogue", "relu", "up.1"),
        Rewrite("fuse_epilogue", "relu_1", "down.1"),
    ]
    assert str(found[0]) == "fuse_epilogue#relu"


def test_what_is_left_out_is_left_out_alone():
    program = compile_block("fuse_epilogue#relu")
    assert [str(one) for one in program.rewrites if one.name == "fuse_epilogue"] == ["fuse_epilogue#relu_1"]
    assert [(node.op.name, node.attributes.get("activation")) for node in program.lowered.nodes[:3]] == [
        ("linear", "none"),
        ("relu", None),
        ("linear", "relu"),
    ]
    assert program.report().switches["disable"] == ("fuse_epilogue#relu",)


@pytest.mark.parametrize("name", ["bert-tiny", "qwen3-tiny", "resnet18-tiny", "mamba-tiny"])
def test_each_rewrite_of_a_model_can_be_left_out(name):
    module, inputs = models.get(name).build()
    exported = exporter.export_with_torch(module, tuple(inputs)).program
    whole = engine.compile(exported, tuple(inputs))
    expected = whole(*inputs)
    assert len(whole.rewrites) > 30
    for one in whole.rewrites[:: max(1, len(whole.rewrites) // 20)]:
        program = engine.compile(exported, tuple(inputs), engine.Config(disable=(str(one),)))
        assert one not in program.rewrites
        before = [other for other in whole.rewrites[: whole.rewrites.index(one)] if other.name != one.name]
        assert set(before) <= set(program.rewrites), "what runs before it is as it was"
        for ours, theirs in zip(leaves(program(*inputs)), leaves(expected), strict=True):
            # Sums in another order: the models are small, and their values near 1.
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-5)


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def test_a_pass_of_a_user_has_rewrites_too(tmp_path):
    file = tmp_path / "again.py"
    file.write_text(OWN_PASS)
    fields = {"passes": (f"{file}:run",), "pipeline": ("use_linear", f"{file}:run")}
    values = [str(one) for one in compile_block(**fields).rewrites if one.name == "again"]
    assert values == ["again#relu", "again#relu_1"]
    left = compile_block("again#relu_1", **fields)
    assert [str(one) for one in left.rewrites if one.name == "again"] == ["again#relu"]


def test_rewrites_of_the_target_can_be_left_out_of_a_file(tmp_path):
    class Chain(nn.Module):
        def forward(self, x):
            return torch.exp(-x.abs() + 1)

    program = engine.compile(Chain().eval(), (X,))
    program.save(tmp_path / "chain.engine")
    (one,) = [one for one in engine.load(tmp_path / "chain.engine").rewrites if one.name == "fuse_pointwise"]
    loaded = engine.load(tmp_path / "chain.engine", config=engine.Config(disable=(str(one),)))
    assert one not in loaded.rewrites
    np.testing.assert_allclose(loaded(X), program(X), rtol=1e-6)
    with pytest.raises(engine.ConfigError, match="fuse_epilogue#relu is a common pass"):
        engine.load(tmp_path / "chain.engine", config=engine.Config(disable=("fuse_epilogue#relu",)))


def test_the_pass_of_a_rewrite_has_to_exist():
    with pytest.raises(engine.ConfigError, match="fuse_epilog"):
        engine.Config(disable=("fuse_epilog#relu",))
