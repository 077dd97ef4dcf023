"""Every Triton kernel on a CUDA device against the definition of its op; `make test-gpu` runs it where there is one.

The cases are those of the interpreter, of sizes that fill no block, and those of real models.
"""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")
if not torch.cuda.is_available():
    pytest.skip("not measured: no CUDA device", allow_module_level=True)

from engine.targets.triton.device import is_interpreted
from tests.targets.on_triton import steps
from tests.targets.on_triton.test_numerics import MODULES

MOST_ELEMENTS = 1 << 24
"""Of all inputs of a case. Some cases of real models are so large that addresses need 64 bits. They are only compiled,
because their references would take minutes and many gigabytes."""


def _is_small(case: steps.Case) -> bool:
    return sum(math.prod(one.shape) for one in case.inputs if one is not None) <= MOST_ELEMENTS


CASES = [
    pytest.param(case, dtype, id=f"{sizes.lower()}-{case}-{dtype}")
    for module in MODULES
    for sizes in ("RAGGED", "REAL")
    for case in filter(_is_small, getattr(module, sizes))
    for dtype in case.dtypes
]


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_kernel(case: steps.Case, dtype: str) -> None:
    assert not is_interpreted(), "run it by `make test-gpu`"
    assert not steps.find_wrong_numbers(case, dtype)
    torch.cuda.synchronize()  # an error of this kernel, not of the next test
