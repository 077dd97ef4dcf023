"""GELU by tanh written by hand, in models of narrow types: their constants are rounded to the type."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from engine.graph import Graph
from engine.ops import TensorType
from tests.graphs import ops, run_pass

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class ByHand(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


def write(cubic: float) -> Graph:
    """The formula in float32, with another factor of the cube."""
    g = Graph()
    x = g.add_input("x", TensorType("float32", (2, 5)))
    cube = g.emit("pow", [x, g.scalar(3.0, "float32")])
    inner = g.emit(
        "mul",
        [g.emit("add", [x, g.emit("mul", [cube, g.scalar(cubic, "float32")])]), g.scalar(0.7978845608, "float32")],
    )
    one = g.emit("add", [g.emit("tanh", [inner]), g.scalar(1.0, "float32")])
    g.outputs = [g.emit("mul", [g.emit("mul", [x, g.scalar(0.5, "float32")]), one])]
    return g


@pytest.mark.parametrize("activations", ["float32", "model"])
@pytest.mark.parametrize("name", TYPES)
def test_rounded_constants_are_known(name: str, activations: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 8).to(TYPES[name])
    program = engine.compile(ByHand().eval(), (x,), engine.Config(target="interpreter", activations=activations))
    assert [op for op in ops(program.graph) if op != "cast"] == ["gelu"]
    exact = nn.functional.gelu(x.double(), approximate="tanh")
    ulp = {"bfloat16": 2**-8, "float16": 2**-11}[name]
    assert (program(x).double() - exact).abs().max() <= ulp * exact.abs().max()


def test_a_float32_model_means_its_constants() -> None:
    """0.044677734375 is 0.044715 rounded to bfloat16."""
    for cubic, is_gelu in ((0.044715, True), (0.044677734375, False)):
        g = write(cubic)
        assert run_pass(g, "fuse_gelu") == [int(is_gelu)]
        assert (ops(g) == ["gelu"]) is is_gelu
