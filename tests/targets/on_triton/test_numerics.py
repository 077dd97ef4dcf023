"""Every Triton kernel against the definition of its op, by Triton's interpreter, on sizes that fill no block."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.targets.triton import registry
from engine.targets.triton.kernels.pointwise import BODIES
from engine.targets.triton.launch import Launches
from tests.targets.on_triton import cases, steps
from tests.targets.on_triton.cases import pointwise

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]
CHECKS = [(case, dtype) for module in MODULES for case in module.RAGGED for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), CHECKS, ids=[f"{case}-{dtype}" for case, dtype in CHECKS])
def test_kernel(case: steps.Case, dtype: str) -> None:
    assert not steps.find_wrong_numbers(case, dtype)


def _plans(sizes: str) -> list[tuple[registry.Declared, Launches]]:
    found = [case for module in MODULES for case in getattr(module, sizes)]
    return [steps.plan(case, steps.outline(case, dtype)) for case in found for dtype in case.dtypes]


def test_every_kernel_has_a_ragged_case() -> None:
    wanted = {(one.op, one.variant) for of_op in registry.kernels().values() for one in of_op}
    assert wanted == {(one.op, one.variant) for one, _launches in _plans("RAGGED")}


def test_the_compiler_sees_every_function() -> None:
    ragged, real = (
        [launch for _one, launches in _plans(sizes) for launch in launches.launches] for sizes in ("RAGGED", "REAL")
    )
    assert not steps.find_unseen(ragged, real)


def test_the_compiler_sees_every_pointwise_op() -> None:
    """Their kernels are functions of one name, whose bodies are generated."""
    programs = [step[0] for case in pointwise.REAL for step in case.attributes.get("program", ())]
    compiled = {*programs, *(case.op for case in pointwise.REAL)}
    assert set(BODIES) - compiled == set(pointwise.USES_STACK)


def test_a_batch_that_no_grid_has_is_refused() -> None:
    for batch, is_planned in ((65535, True), (65536, False)):
        case = steps.Case("matmul", (steps.Input((batch, 1, 2)), steps.Input((batch, 2, 1))))
        made = steps.outline(case, "float32")
        found = registry.plan_step(registry.request_of(made.step, made.attributes, registry.Device()))
        assert isinstance(found, tuple) is is_planned
