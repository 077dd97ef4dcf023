"""Models that compute derivatives by torch.func: right by torch.compile, with gradients enabled or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

import engine
from engine.errors import EngineError
from tests import messages

torch.manual_seed(0)
WEIGHT, HEADS = torch.randn(6, 6), torch.randn(1, 2, 4, 6)
FUNCTIONS = {
    "linear": lambda x: functional.linear(x, WEIGHT).pow(2).sum(),
    "softmax": lambda x: (x.softmax(-1) * WEIGHT[:4]).sum(),
    "layer_norm": lambda x: (functional.layer_norm(x, (6,)) * WEIGHT[:4]).sum(),
    "attention": lambda x: (functional.scaled_dot_product_attention(HEADS * x, HEADS + x, HEADS) * x).sum(),
    "convolution": lambda x: functional.conv1d(x[None], WEIGHT[:2, :4, None]).pow(2).sum(),
    "pooling": lambda x: functional.max_pool1d(x[None], 2).sum(),
}


class Derivative(nn.Module):
    """A transform of torch.func at the input."""

    def __init__(self, transform: str, name: str) -> None:
        super().__init__()
        self.transform, self.function = transform, FUNCTIONS[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.transform:
            case "grad":
                return torch.func.grad(self.function)(x)
            case "vjp":
                value, pull = torch.func.vjp(self.function, x)
                return pull(torch.ones_like(value))[0]
            case "jvp":
                return torch.func.jvp(self.function, (x,), (WEIGHT[:4],))[1]
        return torch.func.jacrev(self.function)(x)


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _differ(transform: str, name: str, *, enabled: bool) -> float:
    """Largest difference from eager."""
    model, x = Derivative(transform, name).eval(), torch.randn(4, 6)
    with torch.set_grad_enabled(enabled):
        found = torch.compile(model, backend="engine")(x)
    exact = model(x)
    return float((found - exact).abs().max() / exact.abs().max())


SOME = {("softmax", True), ("attention", True), ("layer_norm", False), ("convolution", False)}


@pytest.mark.parametrize(
    ("name", "enabled"),
    [
        pytest.param(
            name,
            enabled,
            marks=() if (name, enabled) in SOME else pytest.mark.long,
            id=f"{name}-{'enabled' if enabled else 'disabled'}",
        )
        for name in FUNCTIONS
        for enabled in (True, False)
    ],
)
def test_a_gradient_equals_eager(name: str, enabled: bool) -> None:
    assert _differ("grad", name, enabled=enabled) < 1e-5


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch.func.jvp uses it
@pytest.mark.parametrize(
    ("transform", "name"),
    [
        pytest.param("vjp", "softmax", marks=pytest.mark.long),
        ("jvp", "layer_norm"),
        pytest.param("jacrev", "linear", marks=pytest.mark.long),
    ],
)
def test_other_transforms_equal_eager(transform: str, name: str) -> None:
    """In the derivative of layer_norm two values that torch reads are aliases of one."""
    assert _differ(transform, name, enabled=True) < 1e-5


class Sine(nn.Module):
    """A gradient that torch.export keeps as a constant without values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda one: one.sin().sum())(x)


class Forward(nn.Module):
    """Derivatives in forward mode under vmap, at which torch fails with an AttributeError of its own."""

    def __init__(self, transform: str) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.transform == "hessian":
            return torch.func.hessian(lambda one: one.sin().sum())(x)
        return torch.func.jacfwd(lambda one: one.sin())(x)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch.export asks for it
@pytest.mark.parametrize(
    "model", [Derivative("grad", "linear"), Derivative("vjp", "softmax"), Sine(), Forward("jacfwd"), Forward("hessian")]
)
def test_compile_refuses_a_gradient_and_names_a_way(model: nn.Module) -> None:
    with messages.raises(EngineError):
        engine.compile(model.eval(), (torch.randn(4, 6),))
