"""Mamba, tiny: one scan a layer, as exact as transformers' loop, which everybody but the engine still sees."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.models.mamba import modeling_mamba

import engine
from engine import torch_ops
from engine.targets.cpu import CPU, native
from suites import models
from suites.models.nets import mamba
from tests import messages
from tests.engine.test_language_models import FACTOR, launched, relative_errors
from tests.exports import export_model

SHAPES = ((1, 1), (1, 2), (2, 17), (3, 64))
LAYER = ["rms_norm", "linear", "conv", "linear", "linear", "selective_scan", "linear"]


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({}, SHAPES[::2]),
        pytest.param({}, SHAPES[1::2], marks=pytest.mark.long),
        pytest.param({"logits": "last"}, SHAPES, marks=pytest.mark.long),
    ],
)
def test_it_is_as_exact_as_transformers_loop_at_several_sizes(options, shapes):
    for batch, sequence in shapes:
        model, inputs = models.get("mamba-tiny").build(batch=batch, sequence=sequence, **options)
        program = engine.compile(model, inputs)
        one = program(*inputs).clone()
        ours, eagers = relative_errors(model, inputs, one)
        assert ours <= FACTOR * eagers, (batch, sequence)
        other = models.get("mamba-tiny").inputs(5, batch=batch, sequence=sequence)
        torch.testing.assert_close(program(*other), model(*other), rtol=1e-4, atol=1e-5)
    assert torch.equal(engine.compile(model, inputs, engine.Config(threads=2))(*inputs), one)


@pytest.mark.parametrize("isa", native.kernel_isas("f32"))
def test_every_instruction_set_is_as_exact_as_eager(isa):
    model, inputs, exported = export_model("mamba-tiny", batch=2, sequence=9)
    program = engine.compile(exported, inputs, engine.Config(isa=isa))
    steps = CPU.bind(program.lowered, program.config).steps
    assert {s.kernel.isa for s in steps if s.op in LAYER} == {isa}
    ours, eagers = relative_errors(model, inputs, program(*inputs))
    assert ours <= FACTOR * eagers


@pytest.mark.parametrize("sequence", [1, 12])
def test_a_layer_takes_seven_launches_and_one_copy_of_what_it_convolves(sequence):
    model, inputs = models.get("mamba-tiny").build(batch=2, sequence=sequence)
    program = engine.compile(model, inputs)
    found = launched(program)
    assert [op for op, _ in found] == ["embedding", *LAYER, *LAYER, "rms_norm", "linear"]
    assert [how["activation"] for op, how in found if op == "conv"] == ["silu", "silu"]
    assert program.report().fallback_nodes == 0
    assert program.report().copies == 2


def test_one_program_serves_every_length():
    model, (ids,) = models.get("mamba-tiny").build(batch=2, sequence=9)
    sequence = torch.export.Dim("sequence", min=2, max=64)
    program = engine.compile(model, (ids,), dynamic_shapes={"ids": {1: sequence}})
    for length in (2, 33):
        (given,) = models.get("mamba-tiny").inputs(batch=2, sequence=length)
        static = engine.compile(model, (given,))
        assert torch.equal(program(given), static(given))


def calls(model: nn.Module, ids: torch.Tensor) -> list[str]:
    """What anybody else's export of `model` calls."""
    nodes = torch.export.export(model, (ids,), strict=False).graph.nodes
    return [str(node.target) for node in nodes if node.op == "call_function"]


def test_other_exporters_and_eager_see_transformers_own_loop():
    loop = modeling_mamba.mamba_selective_scan
    model, (ids,) = models.get("mamba-tiny").build(sequence=6)
    engine.compile(model, (ids,))
    assert modeling_mamba.mamba_selective_scan is loop
    assert not torch_ops.is_capturing()
    found = calls(model, ids)
    assert "engine.selective_scan.default" not in found
    assert found.count("aten.matmul.default") == 2 * (6 + 1), "a product a position, and that of the step sizes"


def test_other_threads_keep_transformers_own_loop_during_a_capture(monkeypatch):
    monkeypatch.setattr(modeling_mamba, "mamba_selective_scan", lambda *_: "loop")
    monkeypatch.setattr(mamba, "scan", lambda *_: "operator")
    with torch_ops.capturing(), mamba._scan_as_operator(), ThreadPoolExecutor(1) as pool:
        assert modeling_mamba.mamba_selective_scan(1) == "operator"
        assert pool.submit(lambda: modeling_mamba.mamba_selective_scan(1)).result() == "loop"
    assert modeling_mamba.mamba_selective_scan(1) == "loop"


def test_no_argument_of_transformers_scan_is_lost():
    theirs = inspect.signature(modeling_mamba.mamba_selective_scan).parameters
    named = [name for name, parameter in theirs.items() if parameter.kind is not parameter.VAR_KEYWORD]
    assert list(inspect.signature(mamba.scan).parameters) == named


def test_a_scan_that_must_keep_its_state_is_refused():
    with messages.raises(ValueError):
        mamba.scan(*[torch.zeros(1, 1, 1)] * 5, return_last_state=True)


class OwnMamba(nn.Module):
    """Somebody's own: transitions of its own making, one of the optional operands."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(-torch.rand(6, 3))
        self.project = nn.Linear(6, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step, b, c = self.project(x).split((6, 3, 3), -1)
        y = torch_ops.selective_scan(x.mT, functional.softplus(step).mT, self.rates, b.mT, c.mT, z=x.mT)
        return y.mT


def test_a_model_may_call_the_operator_itself():
    torch.manual_seed(0)
    model, x = OwnMamba().eval().requires_grad_(False), torch.randn(2, 11, 6)
    program = engine.compile(model, (x,))
    assert program.report().fallback_nodes == 0
    torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)


def test_the_operator_is_transformers_scan():
    torch.manual_seed(0)
    (x, dt, z), (b, c), (d, bias) = torch.randn(3, 2, 6, 9), torch.randn(2, 2, 4, 9), torch.randn(2, 6)
    operands = (x, dt, -torch.rand(6, 4), b, c, d, z, bias, True)
    theirs = modeling_mamba.mamba_selective_scan(*operands)
    torch.testing.assert_close(torch_ops.selective_scan(*operands), theirs, rtol=1e-5, atol=1e-5)


def test_the_operator_computes_on_the_device_of_its_operands():
    # torch makes tensors on the device ``meta`` where nothing names another one; they have no values.
    generator = torch.Generator().manual_seed(0)
    u, delta = (torch.rand(2, 4, 5, generator=generator) for _ in range(2))
    decay, b, c = -torch.rand(4, 3, generator=generator), *(torch.rand(2, 3, 5, generator=generator) for _ in range(2))
    expected = torch_ops.selective_scan(u, delta, decay, b, c)
    with torch.device("meta"):
        assert torch.equal(torch_ops.selective_scan(u, delta, decay, b, c), expected)
    on_meta = [tensor.to("meta") for tensor in (u, delta, decay, b, c)]
    assert torch_ops.selective_scan(*on_meta).is_meta
