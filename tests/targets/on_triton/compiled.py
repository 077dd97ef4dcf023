"""Every Triton kernel compiled for sm_90 at real sizes; `make test-triton` runs it, because no GPU is needed.

Shared memory is within the limit, no register is spilled, and products of 16-bit numbers and of TF32 use warpgroup
instructions. Kernels with a fault of their own are compiled as well: each must fail its check, and no other.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.targets.on_triton import aot, cases, planted, steps

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]


def _checks() -> Iterator[Any]:
    """Each case in each of its types; short are those with products on tensor cores, and those that show the compiler
    a kernel function, or a constant of one, that no other short one before has.
    """
    seen: set[str] = set()
    for case, dtype in [(one, dtype) for module in MODULES for one in module.REAL for dtype in one.dtypes]:
        launches = steps.plan(case, steps.outline(case, dtype))[1].launches
        code = set().union(*map(steps.describe_code, launches))
        is_short = bool(case.has_products) or not code <= seen
        seen |= code if is_short else set()
        yield pytest.param(case, dtype, id=f"{case}-{dtype}", marks=() if is_short else pytest.mark.long)


@pytest.fixture(scope="module", autouse=True)
def _target() -> None:
    assert os.environ["TRITON_INTERPRET"] == "0", "run it by `make test-triton`"
    aot.set_target()


@pytest.mark.parametrize(("case", "dtype"), list(_checks()))
def test_compiles(case: steps.Case, dtype: str) -> None:
    made = steps.outline(case, dtype)
    launches = steps.plan(case, made)[1].launches
    # Attention in float32 runs on the ordinary units unless it may round to TF32.
    products = case.has_products if dtype != "float32" or case.allow_tf32 or case.op != "attention" else ()
    assert set(products) <= {one.function.fn.__name__ for one in launches}
    for one in launches:
        has_products = one.function.fn.__name__ in products
        compile_kernel = partial(steps.compile_launch, made, one)
        assert not aot.find_complaints(compile_kernel, has_products=has_products, stack=case.stack)


@pytest.mark.parametrize("name", planted.COMPILED)
def test_a_planted_kernel_fails_its_own_check_alone(name: str) -> None:
    one = planted.COMPILED[name]
    pointers = {parameter: steps.Pointer(dtype) for parameter, dtype in one.dtypes.items()}
    compile_kernel = partial(one.function.warmup, **pointers, **one.numbers, **one.options, grid=(1,))
    complaints = aot.find_complaints(compile_kernel, has_products=one.function is planted.multiply)
    assert [text[: len(one.complaint)] for text in complaints] == ([one.complaint] if one.complaint else [])
