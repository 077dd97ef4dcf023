"""What the fallback to torch asks of a target: which ops it can run, and where its programs read and write tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

import engine
import engine.dynamo
from engine import targets
from engine.errors import ShapeError, UnsupportedByTarget
from engine.exporter import evaluate
from engine.memory import as_array
from engine.ops import TensorType
from engine.runtime import boundary
from engine.targets.host import HOST
from engine.torch_backend import segments
from engine.torch_backend.functional import make_functional
from engine.torch_backend.placement import move, move_calls
from tests import messages
from tests.targets.fake import FAKE, FakeDevice, FakeValue

if "fake" not in targets.TARGETS:
    targets.register(FAKE)

ON_FAKE = engine.Config(target="fake", fallback="torch")
UNFOLDED = engine.Config(target="fake", fallback="torch", disable=("fold_constants",))


class Meta(FakeDevice):
    """A device whose tensors are those of torch's device ``meta``: they have no values, and torch refuses to compute
    with them and tensors of the cpu at once.
    """

    name = "meta"

    def admits(self, tensor: torch.Tensor) -> bool:
        """Tensors of the host and of this device."""
        return tensor.is_cpu or tensor.is_meta

    def bring(self, array: Any) -> Any:
        """A tensor without values."""
        return (torch.from_numpy(array) if isinstance(array, np.ndarray) else array).to("meta")

    def place_of_results(self, inputs: Sequence[Any]) -> str | None:
        """Here, if an input is here."""
        return "meta" if any(isinstance(one, torch.Tensor) and one.is_meta for one in inputs) else None

    def new_result(self, type_: TensorType, place: str) -> torch.Tensor:
        """A tensor without values."""
        return torch.empty(type_.shape, dtype=getattr(torch, type_.dtype), device=place)

    def copy_in(self, value: FakeValue, given: Any) -> None:
        """Zeros in place of elements that are not there."""
        self.write(value, 0 if isinstance(given, torch.Tensor) and given.is_meta else as_array(given))

    def copy_out(self, value: FakeValue, wanted: Any) -> None:
        """Nothing for a tensor without elements."""
        if not (isinstance(wanted, torch.Tensor) and wanted.is_meta):
            super().copy_out(value, wanted)


def refuse(*ops: str) -> Any:
    """A `Target.supports` that refuses these ops."""

    def supports(op: str, inputs: Sequence[Any], attributes: Mapping[str, Any], output: Any = None) -> str | None:
        del inputs, attributes, output
        return "the test says so" if op in ops else None

    return supports


class Model(nn.Module):
    """Torch reads a weight, an input and values of the engine, and makes a tensor of its own (`arange`)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("shift", torch.randn(8, 8).T)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.first(x))
        z = torch.lgamma(torch.tanh(y + torch.arange(8, dtype=torch.float32)).cumsum(0) + self.shift + x)
        return self.second(z), torch.tanh(x), self.shift, x


@pytest.fixture
def model() -> Model:
    return Model().eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake target keeps tensors on torch's device ``meta``, and cannot run some ops."""
    monkeypatch.setattr(FAKE, "device", Meta())
    monkeypatch.setattr(FAKE, "supports", refuse("tanh", "add", "arange"))
    monkeypatch.setattr(boundary, "fault_of_memory", lambda _tensor: "")  # tensors of meta have no memory


def test_ops_that_the_target_cannot_run_are_torchs(monkeypatch, model, x):
    monkeypatch.setattr(FAKE, "supports", refuse("tanh"))
    with pytest.raises(engine.UnsupportedOp):
        engine.compile(model, (x,), engine.Config(target="fake"))
    program = engine.compile(model, (x,), ON_FAKE)
    for got, expected in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(got, expected)
    report = program.report()
    kernels = dict(report.kernels)
    assert (kernels["torch aten.tanh.default"], kernels["torch aten.lgamma.default"]) == (2, 1)
    assert report.fallback_nodes == 3
    assert "fake_tanh" not in kernels
    lines = [line for line in program._example.segments.reasons if line.startswith("aten.tanh.default")]
    assert "aten.tanh.default: target fake cannot run tanh: the test says so (" in lines[0]


def test_a_model_that_the_target_cannot_run_at_all_is_torchs(monkeypatch, x):
    monkeypatch.setattr(FAKE, "supports", refuse("tanh"))
    model = nn.Sequential(nn.Tanh(), nn.Tanh()).eval()
    with pytest.raises(
        UnsupportedByTarget, match=r"(?s)target fake cannot run this program:.*tanh at .*: the test says"
    ):
        engine.compile(model, (x,), engine.Config(target="fake"))
    program = engine.compile(model, (x,), ON_FAKE)
    assert [target for target, _, _ in program.report().segments] == ["torch"]
    torch.testing.assert_close(program(x), model(x))


class Masked(nn.Module):
    """A mask of constants alone, which is computed when compiling, and one that is not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * torch.tril(torch.ones(8, 8)) + torch.tril(x)


def test_what_is_computed_when_compiling_needs_no_kernel(monkeypatch, x):
    monkeypatch.setattr(FAKE, "supports", refuse("tril"))
    program = engine.compile(Masked().eval(), (x,), ON_FAKE)
    torch.testing.assert_close(program(x), Masked()(x))
    assert program.report().fallback_nodes == 1
    program = engine.compile(Masked().eval(), (x,), UNFOLDED)
    torch.testing.assert_close(program(x), Masked()(x))
    assert program.report().fallback_nodes == 1


def test_a_constant_that_is_too_large_to_keep_is_torchs(monkeypatch):
    class Large(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.tril(torch.ones(1200, 1200)).sum()

    monkeypatch.setattr(FAKE, "supports", refuse("tril"))
    monkeypatch.setattr(evaluate, "MOST_BYTES", 1 << 20)
    program, x = engine.compile(Large().eval(), (torch.ones(2),), ON_FAKE), torch.ones(2)
    assert program.report().fallback_nodes == 1
    torch.testing.assert_close(program(x), Large()(x))


def test_what_only_passes_make_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(FAKE, "supports", refuse("layer_norm"))

    class Norm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            centred = x - x.mean(-1, keepdim=True)
            return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)

    with messages.raises(UnsupportedByTarget):
        engine.compile(Norm().eval(), (torch.randn(2, 8),), ON_FAKE)


def test_a_target_that_this_machine_lacks_is_named_although_torch_runs_everything(monkeypatch, x):
    class Lgamma(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.lgamma(x)

    monkeypatch.setattr(FAKE, "unavailable", lambda: "no driver")
    with messages.raises(engine.ConfigError):
        engine.compile(Lgamma().eval(), (x,), ON_FAKE)
    with torch.no_grad(), pytest.raises(Exception, match="target fake: no driver"):
        torch.compile(Lgamma().eval(), backend="engine", options={"target": "fake"})(x)


# --- devices ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_meta")
def test_torch_computes_where_the_programs_of_the_target_do(model, x):
    # Torch refuses to add a tensor of the cpu, such as the weight, the input or what `arange` makes, to one of meta.
    program = engine.compile(model, (x,), UNFOLDED)
    assert {tensor.device.type for tensor in program._example.segments.held.values()} == {"meta"}
    results = program(x.to("meta"))
    assert [(one.device.type, one.shape, one.stride()) for one in results] == [
        ("meta", expected.shape, expected.stride()) for expected in model(x)
    ]


@pytest.mark.usefixtures("on_meta")
def test_results_go_to_the_host_if_no_input_is_on_the_device(monkeypatch, model, x):
    program = engine.compile(model, (x,), ON_FAKE)
    moved: list[tuple[str, str]] = []

    def note(tensor: torch.Tensor, place: Any) -> torch.Tensor:
        moved.append((tensor.device.type, str(place)))
        return tensor  # torch cannot copy it, because it has no values

    monkeypatch.setattr(segments, "move", note)
    program(x)
    assert moved == [("meta", "cpu")] * 4


@pytest.mark.usefixtures("on_meta")
def test_a_result_of_a_program_without_inputs_is_moved_for_torch(x):
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.randn(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) + torch.cumsum(self.kept, 0)

    program = engine.compile(Constant().eval(), (x,), UNFOLDED)
    assert [target for target, _, _ in program.report().segments] == ["engine", "torch"]
    assert program(x.to("meta")).is_meta


def test_calls_and_constants_are_moved_to_a_device() -> None:
    root, graph = nn.Module(), Graph()
    root.register_buffer("kept", torch.randn(4))
    root.other = nn.Parameter(torch.randn(4))
    made = graph.call_function(torch.ops.aten.arange.default, (4,), {"device": torch.device("cpu")})
    silent = graph.call_function(torch.ops.aten.full.default, ([4], 1.0))
    x = graph.placeholder("x")
    cast = graph.call_function(torch.ops.aten._to_copy.default, (x,), {"device": torch.device("cpu")})
    like = graph.call_function(torch.ops.aten.zeros_like.default, (x,))
    held = [graph.get_attr("kept"), graph.get_attr("other")]
    graph.output((made, silent, cast, like, *held))
    module = GraphModule(root, graph)
    move_calls(module, torch.device("meta"))
    assert [one.device.type for one in module(torch.randn(4, device="meta"))] == ["meta"] * 6
    assert root.kept.is_cpu
    assert root.other.is_cpu


def test_a_moved_tensor_keeps_its_strides() -> None:
    for tensor in (torch.randn(3, 4).T, torch.randn(4).expand(3, 4), torch.randn(6, 4)[::2]):
        assert move(tensor, "meta").stride() == tensor.stride()
        assert move(tensor, "cpu") is tensor


def test_a_graph_of_dynamo_may_have_inputs_on_the_device_of_the_target() -> None:
    module, inputs = torch.fx.symbolic_trace(lambda x: (torch.tanh(x),)), [torch.randn(2, device="meta")]
    finished: list[GraphModule] = []

    def finish(graph: GraphModule, _fakes: Sequence[Any]) -> Any:
        finished.append(graph)
        return graph.forward

    with torch.no_grad():
        with messages.raises(ShapeError):
            make_functional(module, inputs, finish, HOST)
        make_functional(module, inputs, finish, Meta())
        assert len(finished) == 1
        sparse = [torch.eye(2).to_sparse()]
        with messages.raises(ShapeError):
            make_functional(module, sparse, finish, Meta())


@pytest.mark.usefixtures("on_meta")
def test_results_of_a_graph_of_dynamo_are_where_torch_would_make_them() -> None:
    torch.compiler.reset()

    def of_torch(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.exp(x) * 2, torch.tanh(x)

    def on_host(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.exp(x), torch.ones(2) * 3

    def compiled(function: Any) -> Any:
        return torch.compile(function, backend="engine", options={"target": "fake"})

    x = torch.randn(2, device="meta")
    with torch.no_grad():
        assert [one.device.type for one in compiled(of_torch)(x)] == ["meta", "meta"]
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            compiled(on_host)(x)


def test_inputs_choose_the_target_of_a_graph_of_dynamo_unless_an_option_does() -> None:
    class OnGpu:
        is_cuda = True

    assert engine.dynamo.config_of({}, [torch.ones(1), 3]).target == "cpu"
    assert engine.dynamo.config_of({"threads": 2}, [torch.ones(1), OnGpu()]).target == "triton"
    assert engine.dynamo.config_of({"target": "fake"}, [OnGpu()]).target == "fake"
    assert engine.dynamo.config_of({}, [OnGpu()]).fallback == "torch"
