"""Errors of CUDA and of its memory, and calls of several threads, with stand-ins for what a GPU reports."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import torch
from torch import nn

import engine
from engine.ops import TensorType
from engine.targets.triton.device import TensorBuffer, TritonDevice
from tests import messages

ON_TRITON = engine.Config(target="triton")
ILLEGAL = "an illegal memory access was encountered"


def _fail(*_arguments: object, **_keywords: object) -> None:
    raise RuntimeError(ILLEGAL)


@pytest.mark.parametrize("place", ["copy_in", "run", "wait", "copy_out"])
def test_an_error_of_cuda_names_the_program_wherever_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model, x = nn.Linear(4, 3).eval(), torch.ones(2, 4)
    program, other = engine.compile(model, (x,), ON_TRITON), engine.compile(model, (x,))
    expected = program(x)
    with monkeypatch.context() as patch:
        if place == "run":
            patch.setattr("engine.targets.triton.capture.Start.__call__", _fail)
        else:
            patch.setattr(TritonDevice, place, _fail)
        with messages.raises(engine.ExecutionError):
            program(x)
        assert torch.allclose(other(x), expected), "programs of other targets go on"
    assert torch.equal(program(x), expected)


def test_too_little_memory_of_the_gpu_says_how_much_is_needed_and_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "empty", refuse)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _place: (1000, 80000))
    with messages.raises(engine.ProgramError):
        TensorBuffer(5000, "cuda:0")
    with messages.raises(engine.ProgramError):
        TritonDevice().new_result(TensorType("float32", (50, 25)), "cuda:0")


def test_an_earlier_error_of_cuda_is_not_taken_for_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", _fail)
    monkeypatch.setattr(torch.cuda, "mem_get_info", _fail)
    with messages.raises(engine.ExecutionError):
        TensorBuffer(5000, "cuda:0")


def test_calls_of_several_threads_give_the_results_of_their_own_inputs() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    inputs = [torch.randn(3, 8) for _ in range(12)]
    program = engine.compile(model, (inputs[0],), ON_TRITON)
    with ThreadPoolExecutor(4) as threads:
        results: list[Any] = list(threads.map(program, inputs))
    for x, result in zip(inputs, results, strict=True):
        assert torch.allclose(result, model(x), atol=1e-6)


def test_a_program_with_a_fallback_cannot_be_tuned() -> None:
    model, x = nn.Sequential(nn.MaxPool1d(2), nn.Linear(4, 3)).eval(), torch.ones(2, 8)
    program: Any = engine.compile(model, (x,), engine.Config(target="triton", fallback="torch"))
    with messages.raises(engine.ConfigError):
        program.tune(x)
