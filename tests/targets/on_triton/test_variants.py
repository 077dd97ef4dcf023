"""Config(variant=...) on the Triton target: which kernel of an op is asked first, and which names are refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
from engine import Config
from engine.targets.triton import kernel_table, target
from tests import messages


def _kernels(program: engine.CompiledModel) -> dict[str, int]:
    return dict(program.report().kernels)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(3, 40, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("variant", ["rows", "loop"])
def test_the_variant_that_is_named_runs_the_op(x: torch.Tensor, variant: str) -> None:
    model = nn.Softmax(-1).eval()
    usual = engine.compile(model, (x,), Config(target="triton"))
    assert _kernels(usual) == {"triton_softmax_rows": 1}
    program = engine.compile(model, (x,), Config(target="triton", variant={"softmax": variant}))
    assert _kernels(program) == {f"triton_softmax_{variant}": 1}
    torch.testing.assert_close(program(x), model(x))


def test_other_kernels_run_the_steps_that_the_variant_does_not_accept(x: torch.Tensor) -> None:
    # The kernel for one vector accepts few rows only.
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(40, 8), nn.Linear(40, 8)

        def forward(self, x: torch.Tensor, one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.first(x), self.second(one)

    model, inputs = Model().eval(), (torch.randn(100, 40), x[:1])
    program = engine.compile(model, inputs, Config(target="triton", variant={"linear": "vector"}))
    assert _kernels(program) == {"triton_linear_tiles": 1, "triton_linear_vector": 1}
    for got, expected in zip(program(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected)


def test_a_variant_that_no_step_can_use_is_an_error(x: torch.Tensor) -> None:
    with messages.raises(engine.ConfigError):
        engine.compile(
            nn.Linear(40, 8).eval(), (torch.randn(100, 40),), Config(target="triton", variant={"linear": "vector"})
        )
    # An op that the program does not have is no error, as on the cpu.
    engine.compile(nn.ReLU().eval(), (x,), Config(target="triton", variant={"linear": "vector"}))


def test_names_are_those_of_the_target() -> None:
    with messages.raises(engine.ConfigError):
        Config(target="triton", variant={"softmax": "row"})
    with messages.raises(engine.ConfigError):
        Config(target="triton", variant={"softmx": "rows"})
    with messages.raises(engine.ConfigError):
        Config(target="triton", variant={"linear": "packed"})
    with messages.raises(engine.ConfigError):
        Config(variant={"softmax": "split"})
    assert Config(variant={"linear": "packed"}).variant == {"linear": "packed"}
    for op, declared in kernel_table.kernels().items():
        for one in declared:
            Config(target="triton", variant={op: one.variant})


def test_without_the_kernels_compiling_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    told = "the package triton is not installed"
    monkeypatch.setattr("engine.config.kernel_variants", lambda _kind: {})
    monkeypatch.setattr(target.TritonTarget, "unavailable", lambda _self: told)
    with messages.raises(engine.ConfigError):
        engine.compile(nn.Softmax(-1).eval(), (x,), Config(target="triton", variant={"softmax": "split"}))
