"""A bad index sets the fault word, and nothing is read or written with it.

The interpreter stops an access outside of the operands, and what lies inside must be as if the index were not there.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.encodings import BFLOAT16, INT8_CHANNEL, INT8_TENSOR  # after the check that triton is there
from engine.ops import TABLE
from tests.targets.on_triton import steps
from tests.targets.on_triton.steps import Case, Input

SIZE = 6  # of every axis that is indexed


def _ids(*shape: int, dtype: str = "int64") -> Input:
    """Positions of which many are negative or too large, however negative ones are read."""
    return Input(shape, dtype, low=-2 * SIZE, high=2 * SIZE)


def _norm(*terms: Input | None) -> Case:
    return Case("embedding_norm", (*terms, *[None] * (8 - len(terms))), {"epsilon": 1e-5})


READS = (
    Case("embedding", (Input((SIZE, 70)), _ids(9)), variant="rows"),
    Case("embedding", (Input((SIZE, 5)), _ids(3, 4, dtype="int32")), variant="loop"),
    *(Case("embedding", (Input((SIZE, 7), encoding=how), _ids(9))) for how in (BFLOAT16, INT8_CHANNEL, INT8_TENSOR)),
    Case("index_select", (Input((SIZE, 70)), _ids(9)), {"axis": 0}, variant="rows"),
    Case("index_select", (Input((SIZE, 3)), _ids(20)), {"axis": 0}, variant="loop"),
    Case("gather", (Input((SIZE, 5)), _ids(9, 5)), {"axis": 0}),
    Case("index", (Input((SIZE, 5)), _ids(9)), {"axes": (0,)}, variant="loop"),
    Case("index", (Input((SIZE, 70)), _ids(9)), {"axes": (0,)}, variant="rows"),
    _norm(Input((SIZE, 5)), _ids(9)),
    _norm(Input((SIZE, 5), encoding=INT8_CHANNEL), _ids(9)),
)


@pytest.mark.parametrize("case", READS, ids=str)
def test_read(case: Case) -> None:
    (result,), _none, is_bad = steps.run(case, "float32")
    operands, attributes = steps.make(case, "float32").references, TABLE[case.op].complete(case.attributes)
    ids, least = operands[1], -SIZE if case.op == "index" else 0
    good = (ids >= least) & (ids < SIZE)
    assert is_bad
    assert good.any()
    operands[1] = np.where(good, ids, 0)
    expected = TABLE[case.op].evaluate(operands, attributes)
    good = good if good.ndim == result.ndim else good[..., None]
    assert steps.worst_error([result], [np.where(good, expected, np.float32(0))]) <= steps.TOLERANCE["float32"]


def test_term_of_norm() -> None:
    good = Input((9,), "int64", high=SIZE)
    table = Input((SIZE, 5))
    assert not steps.run(_norm(table, good, table, good, table, good), "float32")[2]
    assert steps.run(_norm(table, good, table, _ids(9), table, good), "float32")[2]
    assert steps.run(_norm(table, good, table, good, table, _ids(9)), "float32")[2]


@pytest.mark.parametrize(
    "case",
    [
        Case("embedding", (Input((0, 70)), _ids(3)), variant="rows"),
        Case("embedding", (Input((0, 5)), _ids(3)), variant="loop"),
        Case("index", (Input((0, 5)), _ids(3)), {"axes": (0,)}),
        Case("index_put", (Input((0, 5)), Input((5,)), _ids(3)), {"axes": (0,)}),
        Case("index_put", (Input((0, 5)), Input((5,)), _ids(70)), {"axes": (0,)}),
        Case("scatter", (Input((0, 5)), _ids(3, 5), Input((3, 5))), {"axis": 0}),
        _norm(Input((0, 5)), _ids(3)),
    ],
    ids=str,
)
def test_every_index_of_nothing_is_bad(case: Case) -> None:
    assert steps.run(case, "float32")[2]


@pytest.mark.parametrize("count", [1, 20, 100])
def test_index_put(count: int) -> None:
    case = Case("index_put", (Input((SIZE, SIZE, 5)), Input((count, 5)), _ids(count), _ids(count)), {"axes": (0, 1)})
    seed = 0 if count > 1 else 1
    (result,), _none, is_bad = steps.run(case, "float32", seed)
    expected, values, rows, columns = steps.make(case, "float32", seed).references
    written = 0
    for row, column, value in zip(rows, columns, values, strict=True):
        if -SIZE <= row < SIZE and -SIZE <= column < SIZE:
            expected[row, column], written = value, written + 1
    assert is_bad
    assert written or count == 1
    assert np.array_equal(result, expected)


def test_scatter() -> None:
    case = Case("scatter", (Input((SIZE, 5)), _ids(20, 5), Input((20, 5))), {"axis": 0})
    (result,), _none, is_bad = steps.run(case, "float32")
    expected, index, source = steps.make(case, "float32").references
    for (step, column), row in np.ndenumerate(index):
        if 0 <= row < SIZE:
            expected[row, column] = source[step, column]
    assert is_bad
    assert np.array_equal(result, expected)
