"""Whole models on the Triton target, by Triton's interpreter, beside the cpu target."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
from engine import Config
from suites.models import get

NAMES = (
    "gpt2-tiny",
    "qwen3-tiny",
    "bert-tiny",
    "minilm-tiny",
    "stories15m-tiny",
    "smollm2-tiny",
    "transformer-tiny",
    "mlp",
)


def _make(name: str, **chosen: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    spec = get(name)
    arguments = {**spec.shape_keys, **{key: option.default for key, option in spec.options.items()}, **chosen}
    if "sequence" in spec.shape_keys and "sequence" not in chosen:
        arguments["sequence"] = 13
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = spec.make(arguments).eval()
    return model, tuple(spec.example(arguments, generator))


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference over the largest magnitude."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


def _leaves(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else [leaf for one in result for leaf in _leaves(one)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("precision", "tolerance"), [(None, 1e-5), ("int8_weight", 1e-5), ("bf16", 2e-2)])
def test_a_model_equals_the_cpu_target(name: str, precision: str | None, tolerance: float) -> None:
    # float32 sums in another order; bfloat16 products round activations that differ in the last bit of float32
    model, inputs = _make(name)
    here = engine.compile(model, inputs, Config(precision=precision))
    there = engine.compile(model, inputs, Config(precision=precision, target="triton"))
    for got, wanted in zip(_leaves(there(*inputs)), _leaves(here(*inputs)), strict=True):
        assert _distance(got, wanted) < tolerance


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_of_16_bits_keeps_its_type(dtype: torch.dtype) -> None:
    model, inputs = _make("qwen3-tiny")
    with torch.no_grad():
        wanted = model(*inputs)
    program = engine.compile(model.to(dtype), inputs, Config(target="triton", activations="model"))
    outputs = {
        program.lowered.types[one.outputs[0]].dtype for one in program.lowered.instructions if one.op == "linear"
    }
    assert outputs == {str(dtype).removeprefix("torch.")}
    assert _distance(program(*inputs), wanted) < {torch.bfloat16: 5e-2, torch.float16: 5e-3}[dtype]
