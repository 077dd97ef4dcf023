"""Every Triton kernel against the definition of its op, by Triton's interpreter, on sizes that fill no block."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.ops import TensorType
from engine.targets.triton import kernel_table
from engine.targets.triton.launch import Launches
from engine.targets.triton.target import TRITON
from tests.targets.on_triton import cases, steps

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]


def _checks() -> Iterator[Any]:
    """Each case in each of its types; in the short form in one of them, which takes turns."""
    for module in MODULES:
        for number, case in enumerate(module.RAGGED):
            for dtype in case.dtypes:
                is_short = dtype == case.dtypes[number % len(case.dtypes)]
                yield pytest.param(case, dtype, id=f"{case}-{dtype}", marks=() if is_short else pytest.mark.long)


@pytest.mark.parametrize(("case", "dtype"), list(_checks()))
def test_kernel(case: steps.Case, dtype: str) -> None:
    assert not steps.find_wrong_numbers(case, dtype)


def _plans(sizes: str) -> list[tuple[kernel_table.Declared, Launches]]:
    found = [case for module in MODULES for case in getattr(module, sizes)]
    return [steps.plan(case, steps.outline(case, dtype)) for case in found for dtype in case.dtypes]


def test_every_kernel_has_a_ragged_case() -> None:
    wanted = {(one.op, one.variant) for of_op in kernel_table.kernels().values() for one in of_op}
    assert wanted == {(one.op, one.variant) for one, _launches in _plans("RAGGED")}


def test_the_compiler_sees_every_kernel_function_and_constant() -> None:
    ragged, real = _plans("RAGGED"), _plans("REAL")
    assert {one.name for one, _launches in ragged} == {one.name for one, _launches in real}
    assert not steps.find_unseen(
        *([one for _kernel, made in plans for one in made.launches] for plans in (ragged, real))
    )


@pytest.mark.parametrize("sizes", ["RAGGED", "REAL"])
def test_no_case_is_refused_before_it_is_planned(sizes: str) -> None:
    for case in [case for module in MODULES for case in getattr(module, sizes)]:
        for dtype in case.dtypes:
            made = steps.outline(case, dtype)
            operands, count = made.step.operands, made.step.n_inputs
            types = [None if place is None else TensorType(place.dtype, place.layout.shape) for place in operands]
            output = types[count]
            assert output is not None
            if not made.step.encoded:
                assert TRITON.supports(case.op, types[:count], made.attributes, output) is None, f"{case}-{dtype}"


def test_a_batch_that_no_grid_has_is_refused() -> None:
    for batch, is_planned in ((65535, True), (65536, False)):
        case = steps.Case("matmul", (steps.Input((batch, 1, 2)), steps.Input((batch, 2, 1))))
        made = steps.outline(case, "float32")
        found = kernel_table.plan_step(kernel_table.request_of(made.step, made.attributes, kernel_table.Gpu()))
        assert isinstance(found, tuple) is is_planned
