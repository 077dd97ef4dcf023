"""Whole models on a CUDA device, beside eager PyTorch there; `make test-gpu` runs it where there is such a device.

The models have their published sizes. Errors are against float64, and are compared with those of eager in that type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")
if not torch.cuda.is_available():
    pytest.skip("not measured: no CUDA device", allow_module_level=True)

import engine
import engine.dynamo
from engine import Config
from engine.errors import ExecutionError
from engine.targets.triton.device import is_interpreted
from suites.backends.base import flatten
from suites.harness.measure import device
from tests.targets.on_triton.test_fallback import Net
from tests.targets.on_triton.test_models import _make as make

NAMES = ("gpt2", "qwen3", "bert")
SEQUENCE = 64
TIMES_EAGER = 4
"""The engine adds in another order and rounds at other places than eager: its error may be so many times as large."""
LEAST_ERROR = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
NEW_TOKENS = 16


@pytest.fixture(scope="module", autouse=True)
def _is_compiled() -> None:
    assert not is_interpreted(), "run it by `make test-gpu`"
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each launch of a CUDA graph."""
    found: list[None] = []
    replay = torch.cuda.CUDAGraph.replay

    def counted(graph: Any) -> Any:
        found.append(None)
        return replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    return found


@pytest.fixture(autouse=True)
def _memory_is_given_back() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def _on_gpu(name: str, dtype: torch.dtype = torch.float32, **chosen: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
    model, inputs = make(name, sequence=SEQUENCE, **chosen)
    return model.to("cuda", dtype), tuple(one.cuda() for one in inputs)


def _error(found: Any, exact: list[torch.Tensor]) -> float:
    """The largest difference over the largest magnitude, of all outputs."""
    pairs = zip(flatten(found), exact, strict=True)
    return max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_equals_eager_in_one_launch_of_a_graph(name: str, dtype: torch.dtype, launches: list[None]) -> None:
    model, inputs = _on_gpu(name, dtype)
    with torch.inference_mode():
        eager = [one.clone() for one in flatten(model(*inputs))]
    program = engine.compile(model, inputs)
    first, second = program(*inputs), program(*inputs)
    assert len(launches) == 2, "one a call"
    with torch.inference_mode():
        exact = flatten(model.double()(*inputs))
    assert {(one.device, one.dtype) for one in flatten(first)} == {(inputs[0].device, one.dtype) for one in eager}
    assert _error(first, exact) <= TIMES_EAGER * _error(eager, exact) + LEAST_ERROR[dtype]
    assert all(torch.equal(a, b) for a, b in zip(flatten(first), flatten(second), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_8_bits_equal_those_of_the_cpu_target(name: str) -> None:
    model, inputs = make(name, sequence=16)
    here = flatten(engine.compile(model, inputs, Config(precision="int8_weight"))(*inputs))
    there = engine.compile(model, inputs, Config(precision="int8_weight", target="triton"))
    assert _error([one.cpu() for one in flatten(there(*inputs))], [one.double() for one in here]) < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_decoder_generates_the_tokens_of_eager(name: str, launches: list[None]) -> None:
    model, (prompt, _following) = _on_gpu(name, batch=2, phase="decode", steps=NEW_TOKENS)
    decoder = engine.compile_decoder(model.cached().eval(), model.max_length, model.batch)
    launches.clear()
    text = torch.from_numpy(np.asarray(decoder.generate(prompt.cpu().numpy(), NEW_TOKENS))).cuda()
    assert len(launches) == NEW_TOKENS, "a prompt, and a step for each token but the last"
    assert torch.equal(text[:, :SEQUENCE], prompt)
    model.network.set_attn_implementation("sdpa")  # that of the cache needs a cache
    with torch.inference_mode():
        logits = model.network(input_ids=text[:, :-1], use_cache=False, logits_to_keep=NEW_TOKENS).logits
    best = logits.amax(-1)
    chosen = logits.gather(-1, text[:, -NEW_TOKENS:, None])[..., 0]
    assert bool((best - chosen <= 1e-4 * logits.abs().amax()).all()), "the likeliest, or as likely but for rounding"


def test_results_stay_on_the_device_and_are_not_overwritten() -> None:
    model, (first_ids,) = _on_gpu("gpt2")
    program = engine.compile(model, (first_ids,))
    first = program(first_ids)
    kept = first.clone()
    other = program((first_ids + 1) % 1000)
    assert first.is_cuda
    assert other.data_ptr() != first.data_ptr()
    assert torch.equal(first, kept)
    assert program(first_ids.cpu()).is_cpu


def test_a_bad_index_is_reported_and_the_program_goes_on() -> None:
    model, (ids,) = _on_gpu("gpt2")
    program = engine.compile(model, (ids,))
    good, bad = program(ids).clone(), ids.clone()
    bad[0, 3] = model.network.config.vocab_size
    with pytest.raises(ExecutionError, match="an index is out of range"):
        program(bad.cpu())  # a call whose results go to the host waits
    program(bad)
    torch.cuda.synchronize()
    with pytest.raises(ExecutionError, match="an index is out of range"):
        program(ids)  # tells of the call before, which nobody has waited for
    assert torch.equal(program(ids), good)


@pytest.mark.parametrize("place", ["cuda", "cpu"])
def test_torch_runs_a_convolution_between_the_graphs_of_the_engine(place: str) -> None:
    model, x = Net().eval().to(place), torch.randn(2, 4, 64)
    program = engine.compile(model, (x.to(place),), Config(target="triton", fallback="torch"))
    assert program.report().fallback_nodes == 1
    with torch.inference_mode():
        exact = flatten(model.double()(x.double().to(place)))
    for given in (x, x.cuda()):
        results = flatten(program(given))
        assert {one.device for one in results} == {given.device}
        assert _error([one.cpu() for one in results], [one.cpu() for one in exact]) < 1e-5


def test_torch_compile_runs_on_the_device() -> None:
    model = Net().eval().cuda()
    found = torch.compile(model, backend="engine")
    with torch.inference_mode():
        for size in (2, 3, 5):
            x = torch.randn(size, 4, 64, device="cuda")
            results = found(x)
            assert {one.device for one in results} == {x.device}
            assert _error(results, [one.double() for one in model(x)]) < 1e-5
    assert {report.fallback_nodes for report in engine.dynamo.reports()} == {1}


def test_a_profile_has_the_times_of_kernels_and_not_those_of_starting_them() -> None:
    model, inputs = _on_gpu("gpt2")
    program = engine.compile(model, inputs)
    profile = program.profile(*inputs, roofs=False)
    assert profile.clock == "cuda events"
    assert len(profile.nodes) > 80
    assert min(node.seconds for node in profile.nodes) >= 0
    assert sum(node.seconds for node in profile.nodes) == pytest.approx(profile.seconds)
    # The graph runs the same kernels, without events between them. We think that starts from Python take longer.
    assert profile.seconds < 2 * profile.call_seconds
    assert any(node.seconds for node in program.trace(*inputs).nodes)


# --- what the harness measures there ---------------------------------------------------------------------------------


def test_the_device_of_the_harness_has_facts_roofs_and_a_clock() -> None:
    found = device.load("cuda")
    assert found.unavailable() is None
    assert found.facts()["name"] == torch.cuda.get_device_name()
    roofs = found.roofs()
    assert roofs is not None
    assert all(row.rate for row in roofs.rows)
    assert (roofs.rate("bf16", 1) or 0) > (roofs.rate("fp32", 1) or 0), "tensor cores multiply 16 bits"
    matrix = torch.randn(2048, 2048, device="cuda")
    seconds, product = found.time_call(lambda: matrix @ matrix)
    assert product.is_cuda
    assert 2 * 2048**3 / seconds < 2 * max(row.rate or 0.0 for row in roofs.rows if row.unit == "FLOP/s")
