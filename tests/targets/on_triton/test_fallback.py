"""The fallback to torch on the Triton target, by Triton's interpreter, beside eager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
import engine.dynamo
from engine import Config, exporter
from engine.errors import UnsupportedByTarget
from engine.targets import resolve
from engine.torch_backend.fallback import FallbackProgram
from suites import models
from tests import messages

FALLBACK = Config(target="triton", fallback="torch")


class Net(nn.Module):
    """A convolution, for which the target has no kernel, between linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 16)
        self.middle = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        return self.second(torch.relu(self.middle(y))), y


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def net() -> Net:
    return Net().eval()


def _drawn(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 4, 64, generator=torch.Generator().manual_seed(batch))


def test_calls_without_a_kernel_are_run_by_torch_and_listed(net: Net) -> None:
    x = _drawn()
    program = engine.compile(net, (x,), FALLBACK)
    for got, expected in zip(program(x), net(x), strict=True):
        torch.testing.assert_close(got, expected)
    report = program.report()
    assert report.segments == (
        ("engine", 2, "aten.linear.default, aten.relu.default"),
        ("torch", 1, "aten.conv1d.default"),
        ("engine", 2, "aten.relu.default, aten.linear.default"),
    )
    assert report.fallback_nodes == 1
    assert dict(report.kernels)["torch aten.conv1d.default"] == 1
    ours = [name for name, _ in report.kernels if not name.startswith("torch")]
    assert ours
    assert all(name.startswith("triton_") for name in ours)
    trace = program.trace(x, keep=[0])
    assert [node.op for node in trace.nodes if node.op.startswith("aten")] == ["aten.conv1d.default"]


def test_without_the_fallback_the_call_is_refused_by_name(net: Net) -> None:
    with messages.raises(engine.ProgramError):
        engine.compile(net, (_drawn(),), Config(target="triton"))


def test_sizes_may_differ_from_call_to_call(net: Net) -> None:
    batch = torch.export.Dim("batch", min=2, max=9)
    program = engine.compile(net, (_drawn(3),), FALLBACK, dynamic_shapes={"x": {0: batch}})
    for size in (3, 5):
        torch.testing.assert_close(program(_drawn(size)), net(_drawn(size)))


def test_weights_beside_torchs_part_have_the_precision(net: Net) -> None:
    x = _drawn()
    program = engine.compile(net, (x,), Config(target="triton", fallback="torch", precision="int8_weight"))
    rounded = Net().eval()
    with torch.no_grad():
        for linear in (rounded.first, rounded.second):  # 8 bits with a scale for each channel, the largest at 127
            scale = linear.weight.abs().amax(1, keepdim=True) / 127
            linear.weight.copy_((linear.weight / scale).round() * scale)
    for got, expected, plain in zip(program(x), rounded(x), net(x), strict=True):
        torch.testing.assert_close(got, expected)
        assert (got - plain).abs().max() > 1e-4
    assert program.report().weight_bytes < 0.4 * sum(p.nbytes for p in net.parameters())


def test_what_a_precision_makes_of_calls_is_refused_although_torch_could_run_the_calls(net: Net) -> None:
    with messages.raises(UnsupportedByTarget):
        engine.compile(net, (_drawn(),), Config(target="triton", fallback="torch", precision="int4_weight"))


@pytest.mark.parametrize(
    "name", ["bert-tiny", *(pytest.param(name, marks=pytest.mark.long) for name in ("gpt2-tiny", "qwen3-tiny"))]
)
def test_no_call_of_a_model_that_the_target_can_run_goes_to_torch(name: str) -> None:
    model, inputs = models.get(name).build()
    program = FallbackProgram(exporter.export_with_torch(model, inputs), resolve(FALLBACK))
    assert [target for target, _, _ in program.report().segments] == ["engine"]


class Refused(nn.Module):
    """Ops that have kernels, of types and with attributes that these kernels do not take."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        where = torch.tensor([2, 0, 2])
        rows = torch.relu(x).index_put((where,), x[:3], accumulate=True)
        added = torch.zeros_like(x).scatter_add(0, where[:, None].expand(3, 64), x[:3])
        return rows, added * 2, x.double() @ x.double().T, torch.index_select(x, 0, where)


def test_calls_whose_types_or_attributes_no_kernel_takes_are_run_by_torch() -> None:
    model, x = Refused().eval(), _drawn()[0]
    with messages.raises(engine.ProgramError):
        engine.compile(model, (x,), Config(target="triton"))
    program = engine.compile(model, (x,), FALLBACK)
    for got, expected in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(got, expected)
    calls = [name for name, _ in program.report().kernels if name.startswith("torch")]
    assert sorted(calls) == [
        "torch aten.index_put.default",
        "torch aten.matmul.default",
        "torch aten.scatter_add.default",
    ]


def test_torch_compile_falls_back_by_default(net: Net) -> None:
    found = torch.compile(net, backend="engine", options={"target": "triton"})
    with torch.no_grad():
        for size in (2, 2, 3, 4):  # torch makes a size dynamic that it has seen change
            torch.testing.assert_close(found(_drawn(size)), net(_drawn(size)))
    for report in engine.dynamo.reports():
        assert [target for target, _, _ in report.segments] == ["engine", "torch", "engine"]
        assert report.fallback_nodes == 1


def test_torch_compile_refuses_the_call_if_it_is_told_to(net: Net) -> None:
    found = torch.compile(net, backend="engine", options={"target": "triton", "fallback": None})
    with torch.no_grad(), messages.raises(engine.ProgramError):
        found(_drawn())
