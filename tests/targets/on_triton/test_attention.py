"""What attention reads, and what NaN and infinities do: numbers that cases draw by chance say nothing about it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.memory import as_tensor
from tests.targets.on_triton import steps
from tests.targets.on_triton.steps import Case, Input

make = steps.make


def run(monkeypatch, case, dtype, plant):
    """Result and definition of a case after `plant(made)` has changed its operands."""

    def planted(*args, **kwargs):
        made = make(*args, **kwargs)
        plant(made)
        return made

    monkeypatch.setattr(steps, "make", planted)
    results, expected, _is_bad_index = steps.run(case, dtype)
    return results, expected


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_split_does_not_read_blocks_of_keys_that_take_no_part(monkeypatch, kind):
    keys = Input((1, 2, 500, 16))
    case = Case("attention", (Input((1, 4, 1, 16)), keys, keys, Input((500,), kind)), {"scale": 0.25}, variant="split")

    def plant(made):
        mask = made.references[3]
        mask[:] = kind == "bool"
        mask[:130] = mask[200:] = 0 if kind == "bool" else -np.inf
        made.memory[3][:] = as_tensor(mask)
        for position in (1, 2):  # the definition does not see these NaN
            rows = made.memory[position].view(2, 500, 16)
            rows[:, :128] = np.nan
            rows[:, 256:] = np.nan

    results, expected = run(monkeypatch, case, "float32", plant)
    assert steps.worst_error(results, expected) <= steps.TOLERANCE["float32"]


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of the interpreter, which takes maxima by np.nanmax
@pytest.mark.parametrize(
    ("variant", "keys", "narrow", "odd"),
    [
        ("tiles", 90, "", np.nan),
        ("split", 500, "bfloat16", np.inf),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (
                ("tiles", 90, "", np.inf),
                ("split", 500, "", np.nan),
                ("split", 500, "", np.inf),
                ("split", 500, "bfloat16", np.nan),
            )
        ),
    ],
)
def test_an_odd_query_makes_its_own_row_nan(monkeypatch, variant, keys, narrow, odd):
    rows = 20 if variant == "tiles" else 3
    others = Input((1, 2, keys, 16), narrow)
    case = Case("attention", (Input((1, 4, rows, 16)), others, others, None), {"scale": 0.25}, variant=variant)

    def plant(made):
        made.references[0][0, 1, 2, 5] = odd
        made.memory[0].view(4, rows, 16)[1, 2, 5] = odd

    results, expected = run(monkeypatch, case, "float32", plant)
    assert np.isnan(expected[0][0, 1, 2]).all()
    assert np.isnan(expected[0]).sum() == 16
    assert steps.worst_error(results, expected) <= steps.TOLERANCE["float32"]


@pytest.mark.parametrize(("variant", "queries"), [("tiles", 20), ("split", 2)])
def test_scores_of_minus_infinity_are_a_row_without_weights(monkeypatch, variant, queries):
    others = Input((1, 33, 16), "bfloat16", low=-2, high=-1)
    case = Case("attention", (Input((1, queries, 16)), others, others, None), {"scale": 0.25}, variant=variant)

    def plant(made):
        made.references[0][0, 1, 5] = np.inf
        made.memory[0].view(queries, 16)[1, 5] = np.inf

    results, expected = run(monkeypatch, case, "float32", plant)
    assert not expected[0][0, 1].any()
    assert steps.worst_error(results, expected) <= steps.TOLERANCE["float32"]
