"""docs/add-an-encoding.md, followed literally."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import config, encodings
from engine.graph import Graph
from engine.ops import TensorType
from engine.passes import precision

PAGE = (Path(__file__).parents[2] / "docs" / "add-an-encoding.md").read_text()


@pytest.fixture
def ternary(monkeypatch):
    """The encoding and the precision of the page; both tables are as before afterwards."""
    monkeypatch.setattr(encodings, "FAMILIES", dict(encodings.FAMILIES))
    monkeypatch.setattr(precision, "PRECISIONS", dict(precision.PRECISIONS))
    names = config.settings()["precision"]
    monkeypatch.setitem(names.__dict__, "values", (*names.values, "ternary_weight"))
    declared, chosen = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(declared, scope := vars(encodings).copy())
    exec(chosen, vars(precision) | {"TERNARY": scope["TERNARY"]})
    return scope["TERNARY"]


def test_the_encoding_on_the_page_is_in_the_table_and_decodes(ternary):
    assert encodings.encoding("ternary@1") == ternary.along(1)
    weight = np.array([[4, -4, 1, 0], [0.5, 0.2, -0.1, 0.5]], np.float32)
    decoded = ternary.decode(ternary.encode(weight), "float32")
    np.testing.assert_array_equal(decoded, np.array([[4, -4, 0, 0], [0.5, 0, 0, 0.5]], np.float32))


@pytest.mark.filterwarnings("ignore::engine.StaleWeightsWarning")  # the test is about weights that change
def test_a_model_runs_with_it_and_is_saved(ternary, tmp_path):
    model = nn.Linear(8, 4).eval().requires_grad_(requires_grad=False)
    x = torch.randn(2, 8)
    program = engine.compile(model, (x,), engine.Config(target="interpreter", precision="ternary_weight"))
    scale = model.weight.abs().amax(1, keepdim=True)
    model.weight.copy_(torch.round(model.weight / scale) * scale)
    torch.testing.assert_close(program(x), model(x))
    program.save(tmp_path / "p")
    torch.testing.assert_close(engine.load(tmp_path / "p", config=engine.Config(target="interpreter"))(x), model(x))


def test_every_precision_says_whether_it_stores_integers(ternary):
    """Passes read `is_integer` before they fold factors into a weight."""
    precisions = precision.PRECISIONS
    assert "ternary_weight" in precisions
    graph = Graph()
    x = graph.add_input("x", TensorType("float32", (2, 64)))
    node = graph.emit(
        "linear", {"x": x, "weight": graph.constant(np.ones((4, 64), np.float32), "w")}, transpose_weight=True
    ).node
    (weight,) = precision._weights(node)
    for name, one in precisions.items():
        encoding = one.encode(weight)
        assert one.is_integer == (encoding is not None and encoding.is_integer), name


def test_the_page_names_the_rows_of_the_suites(root):
    for path in re.findall(r"`(suites/[\w/]+\.py)`", PAGE):
        assert "precisions" in (root / path).read_text().lower(), path
