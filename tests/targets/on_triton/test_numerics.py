"""Every Triton kernel against the definition of its op, by Triton's interpreter, on sizes that fill no block."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.targets.triton import registry  # noqa: E402  # after the check that triton is there
from tests.targets.on_triton import cases, steps  # noqa: E402

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]
CHECKS = [(case, dtype) for module in MODULES for case in module.RAGGED for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), CHECKS, ids=[f"{case}-{dtype}" for case, dtype in CHECKS])
def test_kernel(case: steps.Case, dtype: str) -> None:
    results, expected, is_bad_index = steps.run(case, dtype)
    assert not is_bad_index
    tolerance = max(steps.TOLERANCE.get(one.dtype.name, 0.0) for one in results) * case.scale
    assert steps.worst_error(results, expected) <= tolerance


def test_every_kernel_has_cases() -> None:
    wanted = {(one.op, one.variant) for of_op in registry.kernels().values() for one in of_op}
    for sizes in ("RAGGED", "REAL"):
        found = set()
        for module in MODULES:
            for case in getattr(module, sizes):
                if case.variant:
                    found.add((case.op, case.variant))
                else:
                    made = steps.make(case, case.dtypes[0]) if sizes == "RAGGED" else None
                    found.add((case.op, steps.plan(case, made)[0].variant if made else registry.kernels()[case.op][0].variant))
        if sizes == "RAGGED":
            assert wanted - found == set()
