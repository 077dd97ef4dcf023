"""Every Triton kernel against the definition of its op, by Triton's interpreter, on sizes that fill no block."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.ops import TABLE
from engine.targets.triton import registry
from tests.targets.on_triton import cases, steps

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]
CHECKS = [(case, dtype) for module in MODULES for case in module.RAGGED for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), CHECKS, ids=[f"{case}-{dtype}" for case, dtype in CHECKS])
def test_kernel(case: steps.Case, dtype: str) -> None:
    results, expected, is_bad_index = steps.run(case, dtype)
    assert not is_bad_index
    tolerance = max(steps.TOLERANCE.get(one.dtype.name, 0.0) for one in results) * case.scale
    assert steps.worst_error(results, expected) <= tolerance


@pytest.mark.parametrize("sizes", ["RAGGED", "REAL"])
def test_every_kernel_has_cases(sizes: str) -> None:
    cases_of = [case for module in MODULES for case in getattr(module, sizes)]
    planned = [steps.plan(case, steps.outline(case, dtype))[0] for case in cases_of for dtype in case.dtypes]
    found = {(one.op, one.variant) for one in planned}
    wanted = {(one.op, one.variant) for of_op in registry.kernels().values() for one in of_op}
    if sizes == "REAL":  # one loop runs all pointwise ops; the compiler need not see each of them
        wanted = {(op, variant) for op, variant in wanted if TABLE[op].family != "pointwise"}
    assert wanted - found == set()
