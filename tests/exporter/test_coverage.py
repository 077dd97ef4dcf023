"""The committed table of ATen calls is what compiling and running them shows, and the page and the list follow it."""

import pytest

from engine.exporter.coverage import PAGE, packets, page, rows
from engine.exporter.registry import HANDLERS, overload
from tests.exporter.coverage import NAMES, ROOT, row

ROWS = {one["name"]: one for one in rows()}


@pytest.mark.parametrize("name", NAMES)
def test_a_call_compiles_for_the_types_listed_and_computes_what_torch_computes(name):
    assert row(name) == ROWS[str(overload(name))], "run python -m tests.exporter.coverage"


def test_the_table_has_every_handler_and_every_case():
    assert {str(op) for op in HANDLERS} <= set(ROWS)
    assert {str(overload(name)) for name in NAMES} == set(ROWS)


def test_at_least_130_calls_are_compiled():
    assert len(packets(rows())) >= 130


def test_the_page_is_fresh():
    assert (ROOT / PAGE).read_text() == page(), "run python -m tests.exporter.coverage"
