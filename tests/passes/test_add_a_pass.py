"""docs/add-a-pass.md, followed literally."""

from __future__ import annotations

import re
from pathlib import Path

from engine.graph import Graph
from engine.ops import TensorType
from tests.graphs import ops

PAGE = Path(__file__).parents[2] / "docs" / "add-a-pass.md"


def test_the_pass_on_the_page_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    room: dict[str, object] = {}
    exec(compile("\n".join(line.removeprefix("   ") for line in code.splitlines()), str(PAGE), "exec"), room)
    g = Graph()
    x, y = (g.add_input(n, TensorType("float32", (2,))) for n in "xy")
    i = g.add_input("i", TensorType("int64", (2,)))
    g.outputs = [g.emit("add", [x, x]), g.emit("add", [x, y]), g.emit("add", [i, i])]
    assert room["run"](g) == 1
    assert ops(g) == ["mul", "add", "add"]
