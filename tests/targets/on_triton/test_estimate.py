"""The estimate of a layer on a GPU reads the plan of the target, and counts what the configuration says."""

from __future__ import annotations

import functools
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from suites.harness.present import markdown
from suites.models.qwen3 import TINY

TOKENS, CACHE = 8, 16
SIZES = {"fp32": 4, "bf16": 2, "int8_weight": 1}
PRECISIONS = ["bf16", *(pytest.param(one, marks=pytest.mark.long) for one in ("fp32", "int8_weight"))]


@pytest.fixture(scope="module")
def script(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "scripts/estimate_gpu.py"))


@pytest.fixture(scope="module")
def plan(script: dict[str, Any]) -> Callable[[int, int, str], Any]:
    """(tokens, before, precision) -> the steps, made once, since each plan compiles a decoder."""

    @functools.cache
    def of(tokens: int, before: int, precision: str) -> Any:
        decoder = script["make_decoder"](TINY, CACHE, precision)
        return script["plan"](decoder, tokens, before, precision)

    return of


def _count_weights(precision: str) -> int:
    """Bytes of the weights of a layer."""
    hidden, inner, width = (TINY[name] for name in ("hidden_size", "intermediate_size", "head_dim"))
    heads, groups = TINY["num_attention_heads"], TINY["num_key_value_heads"]
    shapes = [((heads + 2 * groups) * width, hidden), (hidden, heads * width), (2 * inner, hidden), (hidden, inner)]
    scales = sum(4 * rows for rows, _columns in shapes) if precision == "int8_weight" else 0
    norms = (2 if precision == "bf16" else 4) * (2 * hidden + 2 * width)
    return SIZES[precision] * sum(rows * columns for rows, columns in shapes) + scales + norms


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_weights_of_a_layer_are_those_of_the_configuration(plan: Callable[..., Any], precision: str) -> None:
    works = plan(1, CACHE - 1, precision)
    layer = [work for work in works if work.is_in_middle]
    assert sum(work.weights for work in layer) == _count_weights(precision)
    assert all(0 <= work.weights <= work.read and work.written > 0 for work in works)
    of_products = {work.on_tensor_cores for work in layer if "linear" in work.name}
    assert of_products == {False}  # one row is multiplied without blocks


@pytest.mark.parametrize(
    ("precision", "arithmetic", "of_attention", "size"),
    [
        ("bf16", "narrow", "narrow", 2),
        pytest.param("int8_weight", "two_tf32", "float32", 4, marks=pytest.mark.long),
        pytest.param("fp32", "three_tf32", "float32", 4, marks=pytest.mark.long),
    ],
)
def test_products_of_a_prompt_run_on_tensor_cores(
    plan: Callable[..., Any], precision: str, arithmetic: str, of_attention: str, size: int
) -> None:
    works = [work for work in plan(TOKENS, 0, precision) if work.is_in_middle]
    assert sum(work.weights for work in works) == _count_weights(precision)
    of_products = [work.arithmetic for work in works if "linear" in work.name]
    assert of_products == [arithmetic] * 4
    assert [work.arithmetic for work in works if "attention" in work.name] == [of_attention]
    assert {work.arithmetic for work in works if "linear" not in work.name and "attention" not in work.name} == {
        "float32"
    }
    kept = [work for work in works if "index_put" in work.name]
    nbytes = size * TOKENS * TINY["num_key_value_heads"] * TINY["head_dim"]
    assert [work.written for work in kept] == [nbytes, nbytes]  # and not the whole cache


def test_a_product_of_tf32_takes_twice_as_long_as_one_of_16_bit_numbers(script: dict[str, Any]) -> None:
    ceilings = script["Ceilings"](1.0, 120.0, 10.0)
    names = ("narrow", "tf32", "two_tf32", "three_tf32", "float32")
    assert [ceilings.rate(one) for one in names] == pytest.approx([120.0, 60.0, 30.0, 20.0, 10.0])


def test_a_number_above_0_is_not_written_as_0(script: dict[str, Any], plan: Callable[..., Any]) -> None:
    written = [script["_write"](value, 3) for value in (0, 0.0004, 0.00049, 0.0006, 0.25, 1234.5678)]
    assert written == ["0.000", "0.0004", "0.00049", "0.001", "0.250", "1,234.568"]
    assert [script["_write"](value, 0) for value in (0.0, 0.125, 12.0, 100.0)] == ["0", "0.12", "12", "100"]
    table = script["write_table"](plan(1, CACHE - 1, "bf16"), 2, 1, script["Ceilings"]())
    assert not re.search(r"\b0(\.0+)? (MB|GFLOP|us)\b", table), "of a layer, of the model, or of a token"


@pytest.mark.long
def test_the_page_says_that_it_is_an_estimate(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: dict[str, Any]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- estimate -->\n<!-- /estimate -->\n")
    options = ["--configuration", "tiny", "--tokens", str(TOKENS), "--cache", str(CACHE), "--into", str(page)]
    monkeypatch.setattr(sys, "argv", ["estimate_gpu.py", *options])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(root / "scripts/estimate_gpu.py"), run_name="__main__")
    assert not ended.value.code
    text = markdown.read_between(page, "estimate")
    assert text.startswith("**ESTIMATE, not a measurement.**")
    assert text.count("One layer: ") == text.count("The model (2 layers") == 2
    assert markdown.read_between(root / "docs/gpu.md", "estimate").startswith("**ESTIMATE, not a measurement.**")
