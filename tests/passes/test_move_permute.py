"""Rows that a model turns around a linear: where the turns go, and where they stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

F32 = "float32"


def weights(g: Graph, *shape: int) -> Value:
    return g.constant(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def turned(*, order=(1, 0, 2), after: str = "permute", residual: bool = False) -> Graph:
    """after(linear(permute(x)))."""
    g = Graph()
    x = g.emit("permute", [g.add_input("x", TensorType(F32, (2, 5, 4)))], axes_order=order)
    rows = x.shape[:-1]
    r = g.add_input("r", TensorType(F32, (*rows, 6))) if residual else None
    y = g.emit("linear", [x, weights(g, 6, x.shape[-1]), weights(g, 6), r])
    attributes = {"permute": {"axes_order": (1, 0, 2)}, "reshape": {"shape": (*rows, 2, 3)}, "relu": {}}[after]
    g.outputs = [g.emit(after, [y], **attributes)]
    return g


def test_turns_around_a_linear_undo_each_other():
    g = turned()
    assert run_pass(g, "move_permute", "simplify_views", "dead_code")[0] == 1
    assert ops(g) == ["linear"]


def test_heads_are_taken_apart_of_rows_as_they_lie():
    g = turned(after="reshape")
    assert run_pass(g, "move_permute", "dead_code")[0] == 1
    assert ops(g) == ["linear", "permute", "reshape"]


@pytest.mark.parametrize("almost", [{"order": (0, 2, 1)}, {"after": "relu"}, {"residual": True}])
def test_a_turn_of_columns_or_one_that_arithmetic_follows_stays(almost):
    g = turned(**almost)
    assert run_pass(g, "move_permute") == [0]


def test_a_linear_of_which_only_the_shape_is_used_is_no_obstacle():
    class Ones(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(12, 12)

        def forward(self, x):
            return torch.ones_like(self.linear(x.transpose(1, 2)))

    x = torch.randn(2, 12, 7)
    torch.testing.assert_close(engine.compile(Ones().eval(), (x,))(x), torch.ones(2, 7, 12))


def test_a_linear_whose_result_is_returned_stays():
    g = turned()
    g.outputs.append(g.nodes[1].output)
    assert run_pass(g, "move_permute") == [0]


def joined(order=(2, 0, 1, 3), shape=(5, 2, 12)) -> Graph:
    """permute(linear(reshape(permute(x)))) of heads x [2, 3, 5, 4]."""
    g = Graph()
    x = g.emit("permute", [g.add_input("x", TensorType(F32, (2, 3, 5, 4)))], axes_order=order)
    x = g.emit("reshape", [x], shape=shape)
    y = g.emit("linear", [x, weights(g, 6, shape[-1]), None, None])
    g.outputs = [g.emit("permute", [y], axes_order=(1, 0, 2))]
    return g


def test_joined_heads_keep_the_order_of_their_rows():
    g = joined()
    assert run_pass(g, "move_permute", "simplify_views", "dead_code")[0] == 1
    assert ops(g) == ["permute", "reshape", "linear"]
    assert g.nodes[0].attributes["axes_order"] == (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("order", "shape"),
    [((0, 2, 1, 3), (2, 5, 12)), ((2, 0, 1, 3), (2, 5, 12)), ((2, 1, 0, 3), (1, 15, 8))],
    ids=["in order", "rows that cross", "an axis of its own"],
)
def test_other_joins_stay(order, shape):
    assert run_pass(joined(order, shape), "move_permute") == [0]


def test_what_a_reshape_splits_again_need_not_be_joined():
    g = Graph()
    x = g.emit("reshape", [g.add_input("x", TensorType(F32, (1, 5, 2, 12)))], shape=(5, 6, 4))
    x = g.emit("permute", [x], axes_order=(1, 0, 2))
    g.outputs = [g.emit("reshape", [x], shape=(2, 3, 5, 4))]
    assert run_pass(g, "simplify_views", "dead_code")[0] == 1
    assert [n.output.shape for n in g.nodes] == [(5, 2, 3, 4), (2, 3, 5, 4)]


def test_an_axis_of_size_1_is_no_split():
    g = Graph()
    x = g.emit("reshape", [g.add_input("x", TensorType(F32, (5, 2, 12)))], shape=(5, 6, 4))
    x = g.emit("permute", [x], axes_order=(1, 0, 2))
    g.outputs = [g.emit("reshape", [x], shape=(6, 1, 5, 4))]
    assert run_pass(g, "simplify_views") == [0]


def test_what_a_reshape_joins_across_a_turn_stays():
    g = Graph()
    x = g.emit("reshape", [g.add_input("x", TensorType(F32, (5, 2, 12)))], shape=(5, 6, 4))
    x = g.emit("permute", [x], axes_order=(1, 0, 2))
    g.outputs = [g.emit("reshape", [x], shape=(10, 3, 4))]
    assert run_pass(g, "simplify_views") == [0]


@pytest.mark.parametrize(
    ("batch", "batch_first"),
    [
        (3, False),
        (1, True),
        pytest.param(3, True, marks=pytest.mark.long),
        pytest.param(1, False, marks=pytest.mark.long),
    ],
)
def test_torchs_own_encoder_has_no_copies(batch_first, batch):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=batch_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(*((batch, 7) if batch_first else (7, batch)), 16)
    program = engine.compile(model, (x,))
    with torch.inference_mode():
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=2e-6)
    # Attention writes heads in the order of its own two layouts, of which batches behind the sequence are none.
    assert program.report().copies == (0 if batch_first else 2)
