"""Every configuration that a measurement may choose, compiled for sm_90; `make test-triton` runs it.

Each fits into shared memory and spills no register, as those that the kernels' rules choose (`compiled.py`).
In the short form, of each case the first, the last and the largest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from engine.encodings import BFLOAT16, FLOAT16, INT8_CHANNEL
from engine.targets.triton import kernel_table
from engine.targets.triton.configurations import Finder, Question
from tests.targets.on_triton import aot, steps
from tests.targets.on_triton.steps import Case, Input

_LAYER = {"transpose_weight": True}


def _layer(m: int, encoding: Any = None, op: str = "linear", *, transposed: bool = True, **more: Any) -> Case:
    columns = 6144 if op == "gated_linear" else 4096
    residual = () if op == "gated_linear" else (Input((m, 4096)),)
    weight = Input((columns, 1024) if transposed else (1024, columns), encoding=encoding)
    operands = (Input((m, 1024)), weight, Input((columns,)), *residual)
    return Case(op, operands, _LAYER | {"transpose_weight": transposed} | more, multiprocessors=132)


def _attention(queries: int, width: int, *, narrow: bool = False) -> Case:
    """Two queries of each key: a layer that `tiles` runs for many queries, `split` for one."""
    kind = "bfloat16" if narrow else ""
    key = Input((8, 8, 2048, width), kind)
    attributes = {"scale": width**-0.5, "causal": queries > 1}
    return Case("attention", (Input((8, 16, queries, width)), key, key, None), attributes, multiprocessors=132)


CASES: tuple[tuple[Case, str, bool], ...] = (
    *((_layer(m), dtype, False) for m in (1, 2, 4, 512) for dtype in ("bfloat16", "float32")),
    (_layer(512), "float32", True),
    *((_layer(m, transposed=False), "float32", False) for m in (16, 512)),
    *((_layer(m, op="gated_linear"), dtype, False) for m in (1, 512) for dtype in ("bfloat16", "float32")),
    *((_layer(m, BFLOAT16, compute="bfloat16"), "float32", False) for m in (1, 512)),
    *((_layer(m, INT8_CHANNEL.along(0)), "float32", False) for m in (1, 512)),
    (_layer(512, INT8_CHANNEL.along(0), op="gated_linear"), "float32", False),
    (_layer(512, FLOAT16), "float32", False),
    *((_attention(queries, width), "bfloat16", False) for queries in (1, 512) for width in (64, 128)),
    *((_attention(queries, width, narrow=True), "float32", False) for queries in (1, 512) for width in (64, 128)),
    *(
        (_attention(queries, width), "float32", tf32)
        for queries in (1, 512)
        for width in (64, 128)
        for tf32 in (False, True)
    ),
)
"""A case, its element type, and whether float32 may be rounded to TF32."""


class _Forced(Finder):
    """Answers with candidate `number`, the rule's for None, and notes which there are."""

    candidates: tuple[Any, ...]

    def __init__(self, number: int | None = None) -> None:
        self._number, self.candidates = number, ()

    def find(self, question: Question, candidates: Any, rule: Any) -> Any:
        del question
        self.candidates = tuple(candidates)
        return rule if self._number is None else candidates[self._number]


def _device(case: Case, finder: Finder, *, tf32: bool) -> kernel_table.Gpu:
    return kernel_table.Gpu("", case.multiprocessors, tf32, finder)


def _checks() -> Iterator[Any]:
    """Short are the first, the last and the largest candidate of a case: of blocks, warps and stages together."""
    for case, dtype, tf32 in CASES:
        finder, made = _Forced(), steps.outline(case, dtype)
        kernel_table.plan_step(kernel_table.request_of(made.step, made.attributes, _device(case, finder, tf32=tf32)))
        sizes = [math.prod(candidate) for candidate in finder.candidates]
        short = {0, len(sizes) - 1, sizes.index(max(sizes))}
        for number in range(len(sizes)):
            name = f"{case}-{dtype}{'-tf32' * tf32}-{number}"
            marks = () if number in short else pytest.mark.long
            yield pytest.param(case, dtype, tf32, number, id=name, marks=marks)


@pytest.fixture(scope="module", autouse=True)
def _target() -> None:
    assert os.environ["TRITON_INTERPRET"] == "0", "run it by `make test-triton`"
    aot.set_target()


@pytest.mark.parametrize(("case", "dtype", "tf32", "number"), list(_checks()))
def test_compiles(case: Case, dtype: str, tf32: bool, number: int) -> None:
    finder, made = _Forced(number), steps.outline(case, dtype)
    found = kernel_table.plan_step(
        kernel_table.request_of(made.step, made.attributes, _device(case, finder, tf32=tf32))
    )
    assert isinstance(found, tuple)
    launch = found[1].launches[0]
    # Tensor cores multiply blocks of 64 rows or more by warpgroups.
    has_products = launch.arguments.get("PRECISION") in ("two_tf32", "tf32x3") and launch.arguments["BLOCK_M"] >= 64
    assert not aot.find_complaints(partial(steps.compile_launch, made, launch), has_products=has_products)
