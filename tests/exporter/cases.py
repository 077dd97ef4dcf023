"""What a case of the exporter's tests is: one ATen overload, inputs, and ways to call it, one a set of keywords."""

from dataclasses import dataclass

import torch

from engine.exporter.handlers import overload


@dataclass(frozen=True)
class Case:
    """One overload on some inputs.

    Attributes:
        name: the overload, as the exporter's handlers name it.
        inputs: tensors (or numbers) that the module is called with.
        calls: functions ``(op, *inputs)`` that call the overload once each.
    """

    name: str
    inputs: tuple
    calls: tuple


def case(name, inputs, *calls):
    return Case(name, inputs, calls or (lambda op, *tensors: op(*tensors),))


class Module(torch.nn.Module):
    """Every call of a case on the same inputs."""

    def __init__(self, op, calls):
        super().__init__()
        self.op = op
        self.calls = calls

    def forward(self, *inputs):
        return [call(self.op, *inputs) for call in self.calls]


class Recorder:
    """Calls an overload and notes which arguments it was given, and which with another value than the default."""

    def __init__(self, name):
        self.op = overload(name)
        self.given = set()
        self.varied = set()

    def __call__(self, *args, **kwargs):
        arguments = self.op._schema.arguments
        given = dict(zip((a.name for a in arguments), args, strict=False)) | kwargs
        self.given |= set(given)
        defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
        for name, value in given.items():
            if name not in defaults or isinstance(value, torch.Tensor) or value != defaults[name]:
                self.varied.add(name)
        return self.op(*args, **kwargs)


_generator = torch.Generator().manual_seed(7)


def f32(*shape, dtype=torch.float32):
    """Ordinary numbers around 0."""
    return torch.randn(shape, generator=_generator).to(dtype)


def positive(*shape):
    return f32(*shape).abs() + 0.1


def i64(*shape, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=_generator).to(dtype)


def nonzero(*shape):
    numbers = i64(*shape, low=1, high=6)
    return torch.where(i64(*shape) > 0, numbers, -numbers)


def flags(*shape):
    return i64(*shape, low=0, high=2, dtype=torch.bool)


def special():
    """NaN, infinities, both zeros, ties of rounding, and a large number."""
    inf, nan = float("inf"), float("nan")
    return torch.tensor([nan, inf, -inf, 0.0, -0.0, 0.5, 1.5, -2.5, 1e30, -3.7, 1.0, -1.0])
