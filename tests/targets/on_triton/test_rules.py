"""The rules choose the fastest configurations where kernels were timed on a GPU (docs/gpu-results.md)."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from engine.targets.triton import kernel_table
from tests.targets.on_triton import steps
from tests.targets.on_triton.steps import Case, Input

MULTIPROCESSORS = 132

TIMED = [
    ((128, 768, 768), (32, 64, 128)),
    ((128, 3072, 768), (64, 64, 128)),
    ((128, 768, 3072), (64, 128, 64)),
    ((512, 768, 768), (64, 64, 128)),
    ((512, 2304, 768), (64, 128, 64)),
    ((512, 768, 3072), (64, 128, 64)),
    ((512, 50257, 768), (64, 128, 64)),
]
"""Rows, columns and summands of a linear layer of bfloat16, and the blocks of the fastest configuration on an H100."""


TIMED_FLOAT = [
    ((512, 50257, 768), True, (128, 128, 32)),
    ((512, 3072, 768), True, (128, 128, 32)),
    ((512, 3072, 768), False, (64, 32, 32)),
    ((512, 768, 3072), True, (64, 32, 32)),
    ((256, 3072, 768), True, (64, 128, 32)),
    ((64, 3072, 768), True, (64, 32, 32)),
    ((16, 3072, 768), True, (16, 64, 64)),
]
"""The same of float32. True: the summands of the weight are contiguous; False: its columns are. With False, blocks
of 128 x 64 x 32 took 5% less time, but need more registers than a thread has with triton 3.7. 256 rows were not timed:
most multiprocessors would have no block of 128 x 128, and blocks of 64 x 128 were the next best of `FLOAT_ROWS`."""


def _blocks(m: int, n: int, k: int, dtype: str, op: str = "linear", *, transposed: bool = True) -> tuple[int, ...]:
    extra = () if op == "gated_linear" else (None,)
    columns = 2 * n if op == "gated_linear" else n
    weight = Input((columns, k) if transposed else (k, columns))
    case = Case(op, (Input((m, k)), weight, None, *extra), {"transpose_weight": transposed})
    made = steps.outline(case, dtype)
    device = kernel_table.Gpu(multiprocessors=MULTIPROCESSORS)
    found = kernel_table.plan_step(kernel_table.request_of(made.step, made.attributes, device))
    assert isinstance(found, tuple)
    arguments = found[1].launches[0].arguments
    return tuple(arguments[f"BLOCK_{axis}"] for axis in "MNK")


@pytest.mark.parametrize(("sizes", "fastest"), TIMED, ids=["x".join(map(str, sizes)) for sizes, _fastest in TIMED])
def test_a_product_of_16_bits_has_the_blocks_that_were_the_fastest(
    sizes: tuple[int, ...], fastest: tuple[int, ...]
) -> None:
    assert _blocks(*sizes, "bfloat16") == fastest


@pytest.mark.parametrize(("sizes", "transposed", "fastest"), TIMED_FLOAT)
def test_a_product_of_float32_has_the_blocks_that_its_times_suggest(
    sizes: tuple[int, ...], transposed: bool, fastest: tuple[int, ...]
) -> None:
    assert _blocks(*sizes, "float32", transposed=transposed) == fastest


def test_blocks_of_gated_layers_are_narrowed_before_they_are_counted() -> None:
    assert _blocks(256, 2048, 1024, "float32", "gated_linear") == (64, 64, 32)


def test_what_was_not_timed_keeps_the_rule_of_its_rows() -> None:
    assert _blocks(4096, 2304, 768, "bfloat16") == (128, 128, 64)
    assert _blocks(512, 3072, 1024, "bfloat16", "gated_linear") == (128, 64, 64)
    assert _blocks(512, 3072, 1024, "float32", "gated_linear") == (128, 64, 32)
    assert _blocks(64, 768, 768, "bfloat16") == (64, 128, 64)
