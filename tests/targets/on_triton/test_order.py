"""Of equal positions the last one wins, in whatever order the lanes of a GPU write."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from triton.runtime import interpreter

from engine.targets.triton import kernel_table
from tests.targets.on_triton import steps
from tests.targets.on_triton.steps import Case, Input

ROWS = Input((20,), "int64", high=3)  # one program has all lanes of these cases
CASES = (
    Case("index_put", (Input((3, 5)), Input((20, 5)), ROWS), {"axes": (0,)}),
    Case("index_put", (Input((4, 3)), Input((4, 20)), ROWS), {"axes": (1,)}),
    Case("index_put", (Input((3, 3)), Input((20,)), ROWS, ROWS), {"axes": (0, 1)}),
    Case("index_put", (Input((3, 5)), Input((100, 5)), ROWS._replace(shape=(100,))), {"axes": (0,)}),
    Case("index_put", (Input((4, 3)), Input((4, 5, 20)), ROWS._replace(shape=(5, 20))), {"axes": (1,)}),
    Case("scatter", (Input((3, 5)), ROWS._replace(shape=(20, 5)), Input((20, 5))), {"axis": 0}),
    Case("scatter", (Input((5, 3)), ROWS._replace(shape=(5, 20)), Input((5, 20))), {"axis": 1}),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lanes_may_write_backwards(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_table.kernels()  # which makes the interpreter strict before its stores are replaced
    store, stored = interpreter.InterpreterBuilder.create_masked_store, []

    def store_backwards(self: Any, *operands: Any) -> Any:
        handles = [interpreter.TensorHandle(one.data.reshape(-1)[::-1].copy(), one.dtype) for one in operands[:3]]
        stored.append(handles[0].data.size)
        return store(self, *handles, *operands[3:])

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_store", store_backwards)
    results, expected, is_bad = steps.run(case, "float32")
    assert not is_bad
    assert max(stored) > 1
    assert steps.worst_error(results, expected) == 0
