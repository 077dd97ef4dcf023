"""Whole models on the Triton target, by Triton's interpreter, beside the cpu target."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
from engine import Config
from engine.exporter import export_with_torch
from engine.targets.triton import target
from engine.targets.triton.device import TritonDevice
from suites.models import get, gpt2, qwen3
from suites.models.nets.cached import CachedLM
from suites.models.nets.causal import CausalLM
from tests import messages

# Each network once, and each precision on two of them; in the short form four networks, and each precision once.
CHECKS = [
    *((name, None) for name in ("gpt2-tiny", "mlp")),
    ("qwen3-tiny", "int8_weight"),
    ("bert-tiny", "bf16"),
    *(
        pytest.param(name, precision, marks=pytest.mark.long)
        for name, precision in (
            *((name, None) for name in ("qwen3-tiny", "bert-tiny", "minilm-tiny", "stories15m-tiny")),
            ("gpt2-tiny", "int8_weight"),
            ("qwen3-tiny", "bf16"),
        )
    ),
]
TOLERANCE = {None: 1e-5, "int8_weight": 1e-5, "bf16": 2e-2}
"""float32 sums in another order; products in bfloat16 round activations that differ in the last bit of float32."""


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


@pytest.mark.parametrize(("name", "precision"), CHECKS)
def test_a_model_equals_the_cpu_target(name: str, precision: str | None) -> None:
    model, inputs = _make(name)
    exported = export_with_torch(model, inputs).program
    here = engine.compile(exported, inputs, Config(precision=precision))
    there = engine.compile(exported, inputs, Config(precision=precision, target="triton"))
    for got, wanted in zip(_leaves(there(*inputs)), _leaves(here(*inputs)), strict=True):
        assert _distance(got, wanted) < TOLERANCE[precision]


@pytest.mark.parametrize("dtype", [pytest.param(torch.bfloat16, marks=pytest.mark.long), torch.float16])
def test_a_model_of_16_bits_keeps_its_type(dtype: torch.dtype) -> None:
    model, inputs = _make("qwen3-tiny")
    with torch.no_grad():
        wanted = model(*inputs)
    program = engine.compile(model.to(dtype), inputs, Config(target="triton", activations="model"))
    outputs = {node.output.dtype for node in program.lowered.nodes if node.op.name == "linear"}
    assert outputs == {str(dtype).removeprefix("torch.")}
    assert _distance(program(*inputs), wanted) < {torch.bfloat16: 5e-2, torch.float16: 5e-3}[dtype]


@pytest.mark.parametrize(
    ("name", "of_layer", "others", "kind"),
    [
        ("gpt2-tiny", 7, 4, torch.float32),
        ("qwen3-tiny", 11, 3, torch.bfloat16),
        pytest.param("gpt2-tiny", 7, 4, torch.bfloat16, marks=pytest.mark.long),
        pytest.param("qwen3-tiny", 11, 3, torch.float32, marks=pytest.mark.long),
    ],
)
def test_a_layer_has_the_known_number_of_launches(name: str, of_layer: int, others: int, kind: torch.dtype) -> None:
    # A layer of GPT-2 has two norms, four linear layers and attention. A layer of Qwen3 has two norms of the stream and
    # two of the heads. It has one linear layer for queries, keys and values, one for the output of attention, a gated
    # layer and the linear layer that follows it. It also has two rotations and attention. A bfloat16 model has casts
    # around its norms; they are counted as part of the norms.
    model, inputs = _make(name)
    program = engine.compile(model.to(kind), inputs, Config(target="triton"))
    report = program.report()
    assert sum(node.op.view is None for node in program.lowered.nodes) == 2 * of_layer + others
    assert report.launches == 2 * of_layer + others


def test_a_program_with_dynamic_sizes_and_from_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = CausalLM("gpt2", gpt2.TINY | {"n_layer": 1}, "sdpa").eval()
    ids = torch.randint(0, gpt2.TINY["vocab_size"], (1, 9))
    sequence = torch.export.Dim("sequence", min=2, max=32)
    program = engine.compile(model, (ids,), Config(target="triton"), dynamic_shapes={"ids": {1: sequence}})
    program.save(tmp_path / "model.engine")
    loaded = engine.load(tmp_path / "model.engine", config=Config(target="triton"))
    here = engine.load(tmp_path / "model.engine")
    for length in (9, 4):
        shorter = ids[:, :length].contiguous()
        result = program(shorter)
        assert _distance(result, here(shorter)) < 1e-5
        assert torch.equal(result, loaded(shorter))


@pytest.mark.parametrize(
    ("family", "settings", "new_tokens"),
    [
        pytest.param("qwen3", qwen3.TINY | {"num_hidden_layers": 1}, 3, marks=pytest.mark.long),
        ("gpt2", gpt2.TINY | {"n_layer": 1}, 2),
    ],
    ids=["qwen3", "gpt2"],
)
def test_a_decoder_generates_the_tokens_of_the_cpu_target(
    family: str, settings: dict[str, Any], new_tokens: int
) -> None:
    torch.manual_seed(0)
    network = CausalLM(family, settings, "sdpa").eval().network
    module = CachedLM(network, 2, 8).eval()
    ids = torch.randint(0, settings["vocab_size"], (2, 4))
    lengths = [4, 3]
    here = engine.compile_decoder(module, max_length=8, batch=2)
    there = engine.compile_decoder(module, max_length=8, batch=2, config=Config(target="triton"))
    wanted, of_cpu = here.generate(ids, new_tokens, lengths, return_logits=True)
    got, logits = there.generate(ids, new_tokens, lengths, return_logits=True)
    assert torch.equal(got, wanted)
    assert _distance(logits, of_cpu) < 1e-5


def test_a_bad_index_is_an_error_that_names_its_line() -> None:
    model, (ids,) = _make("gpt2-tiny")
    program = engine.compile(model, (ids,), Config(target="triton"))
    wrong = ids.clone()
    wrong[0, 3] = 211
    with pytest.raises(engine.ExecutionError, match=r"embedding at .*modeling_gpt2\.py.*: an index is out of range"):
        program(wrong)
    assert program(ids).isfinite().all()  # the next call is not affected


def test_an_error_of_cuda_names_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = _make("mlp")
    program = engine.compile(model, inputs, Config(target="triton"))

    def fail(_device: object) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    with monkeypatch.context() as patch:
        patch.setattr(TritonDevice, "wait", fail)
        with messages.raises(engine.ExecutionError):
            program(*inputs)
    assert program(*inputs).isfinite().all()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, str]], None]]:
    """Makes packages of these versions the only ones, and kernels those of a GPU."""
    versions: dict[str, str] = {}

    def version(package: str) -> str:
        if package not in versions:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    def make(found: dict[str, str]) -> None:
        versions.update(found)
        monkeypatch.setattr(importlib.metadata, "version", version)
        monkeypatch.setattr(target, "is_interpreted", lambda: False)
        target.find_missing_package.cache_clear()

    yield make
    target.find_missing_package.cache_clear()


@pytest.mark.parametrize("versions", [{}, {"torch": "2.13.0"}, {"torch": "2.13.0", "triton": "3.9.1"}])
def test_what_is_missing_is_one_sentence(install: Callable[[dict[str, str]], None], versions: dict[str, str]) -> None:
    model, inputs = _make("mlp")
    install(versions)
    with messages.raises(engine.ConfigError):
        engine.compile(model, inputs, Config(target="triton"))


def test_a_machine_without_a_cuda_device_is_refused(install: Callable[[dict[str, str]], None]) -> None:
    model, inputs = _make("mlp")
    install({"torch": "2.13.0", "triton": "3.7.1"})
    with pytest.raises(engine.ConfigError, match=r"there is no CUDA device; torch .* is built without CUDA"):
        engine.compile(model, inputs, Config(target="triton"))


def test_an_older_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "is_interpreted", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    assert target.TRITON.unavailable() == "Tesla T4 has compute capability 7.5; kernels need 8.0"


def test_an_op_without_a_kernel_is_refused_by_name_and_run_by_torch_if_asked() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.max_pool1d(x, 2)

    x = torch.randn(1, 2, 8)
    with messages.raises(engine.ProgramError):
        engine.compile(Model().eval(), (x,), Config(target="triton"))
    program = engine.compile(Model().eval(), (x,), Config(target="triton", fallback="torch"))
    assert torch.equal(program(x), Model()(x))


def test_a_trace_sees_every_value() -> None:
    model, inputs = _make("mlp")
    program = engine.compile(model, inputs, Config(target="triton"))
    trace = program.trace(*inputs)
    assert len(trace.nodes) == len(program.lowered.nodes)
