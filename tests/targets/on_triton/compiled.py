"""Every Triton kernel compiled for sm_90 at real sizes; `make test-triton` runs it, because no GPU is needed.

Shared memory is within the limit, no register is spilled, and products of 16-bit numbers use warpgroup instructions.
"""

from __future__ import annotations

import importlib
import os
import pkgutil

import pytest

from tests.targets.on_triton import aot, cases, steps

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]
CHECKS = [(case, dtype) for module in MODULES for case in module.REAL for dtype in case.dtypes]


@pytest.fixture(scope="module", autouse=True)
def _target() -> None:
    assert os.environ["TRITON_INTERPRET"] == "0", "run it by `make test-triton`"
    aot.set_target()


@pytest.mark.parametrize(("case", "dtype"), CHECKS, ids=[f"{case}-{dtype}" for case, dtype in CHECKS])
def test_compiles(case: steps.Case, dtype: str) -> None:
    made = steps.outline(case, dtype)
    for launch in steps.plan(case, made)[1].launches:
        facts = aot.inspect(steps.compile_launch(made, launch))
        assert facts.shared <= aot.SHARED_BYTES
        assert facts.stack == 0
        if case.has_products and launch.function.fn.__name__ in case.has_products and dtype != "float32":
            assert facts.wgmma > 0
