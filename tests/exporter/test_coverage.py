"""The committed table of ATen calls is what compiling and running them shows, and the page and the list follow it."""

from typing import Any

import pytest

from engine.exporter.coverage import packets, rows
from engine.exporter.handlers import HANDLERS, overload
from tests.exporter.coverage import NAMES, ROOT, row
from tools.aten_page import PAGE, page

ROWS = {one["name"]: one for one in rows()}


def _mark_alike() -> list[Any]:
    """The names; long are those after the first that become the same ops, and 9 of 10 that torch decomposes."""
    marked: list[Any] = []
    seen: set[tuple[str, ...]] = set()
    decomposed = 0
    for name in NAMES:
        one = ROWS.get(str(overload(name)), {"by": "", "ops": [name]})
        ops = tuple(one["ops"])
        if one["by"] == "torch's decomposition":
            is_long, decomposed = decomposed % 10 != 0, decomposed + 1
        else:
            is_long = ops in seen
            seen.add(ops)
        marked.append(pytest.param(name, marks=pytest.mark.long) if is_long else name)
    return marked


@pytest.mark.parametrize("name", _mark_alike())
def test_a_call_compiles_for_the_types_listed_and_computes_what_torch_computes(name):
    assert row(name) == ROWS[str(overload(name))], "run python -m tests.exporter.coverage"


def test_the_table_has_every_handler_and_every_case():
    assert {str(op) for op in HANDLERS} <= set(ROWS)
    assert {str(overload(name)) for name in NAMES} == set(ROWS)


def test_at_least_130_calls_are_compiled():
    assert len(packets(rows())) >= 130


def test_the_page_is_fresh():
    assert (ROOT / PAGE).read_text() == page(), "run python -m tests.exporter.coverage"
