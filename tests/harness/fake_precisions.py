"""Backends that claim precisions and devices, some of them wrongly; named in suites as ``path.py:Class``."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch

from suites.backends.base import Prepared, Scheme
from suites.backends.eager import Eager
from suites.backends.engine import EngineInterpreter
from suites.harness.declare.precision import PRECISIONS
from tests.harness import fake_queue

DEVICES = ("cpu", "fake_device.py:Asynchronous", "fake_device.py:Impatient")


class Right(Eager):
    """Eager, and the definitions of the engine's ops for quantised cases. Option ``off``: a relative error to add."""

    precisions = tuple(PRECISIONS)

    def prepare(self, model, inputs):
        made = super().prepare(model, inputs)
        if PRECISIONS[self.precision].kind == "quantised":
            engine = EngineInterpreter(self.threads, {})
            engine.precision = self.precision
            made = engine.prepare(model, inputs)
        off = 1 + float(self.options.get("off", 0))
        return replace(made, call=lambda *x: (made.call(*x).double() * off).to(made.call(*x).dtype))


class IgnoresPrecision(Eager):
    """Computes in float32, whatever is asked for."""

    precisions = tuple(PRECISIONS)

    def prepare(self, model, inputs):
        wide = model.float()
        return Prepared(lambda *x: wide(*(one.float() for one in x)))


class CastsOutput(IgnoresPrecision):
    """The same, and gives the type that is asked for."""

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call
        return Prepared(lambda *x: call(*x).to(x[0].dtype))


class ClaimsPrecision(IgnoresPrecision):
    """Computes in float32, says otherwise, and gives float32."""

    def prepare(self, model, inputs):
        return replace(super().prepare(model, inputs), precision=self.precision)


class Liar(CastsOutput):
    """Computes in float32, says otherwise, and casts its output."""

    def prepare(self, model, inputs):
        return replace(super().prepare(model, inputs), precision=self.precision)


class ClaimsScheme(Eager):
    """Eager with weights of 8 bits whose scales are those of -128 .. 127; does not say that they are its own.

    Option ``fault``: ``scale`` makes a layer 5% too large, ``rows`` exchanges two of its rows.
    """

    precisions = ("int8_weight",)

    def prepare(self, model, inputs):
        layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
        with torch.no_grad():
            for layer in layers:
                scale = layer.weight.abs().amax(1, keepdim=True) / 127.5
                layer.weight.copy_((layer.weight / scale).round().clamp(-128, 127) * scale)
            if self.options.get("fault") == "scale":
                layers[0].weight.mul_(1.05)
            if self.options.get("fault") == "rows":
                layers[0].weight[:2] = layers[0].weight[:2].flip(0).clone()
        return super().prepare(model, inputs)


class OwnScheme(ClaimsScheme):
    """The same, and says it."""

    schemes: ClassVar = {"int8_weight": Scheme("rounds in a way of its own")}


class IgnoresDevice(Eager):
    """Claims every device and stays on the cpu."""

    devices = DEVICES

    def prepare(self, model, inputs):
        return Prepared(super().prepare(model, inputs).call)


class Away(Eager):
    """Claims the device and gives results of another one."""

    devices = DEVICES

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def elsewhere(*x):
            found = call(*x)
            found.on_the_host = True
            return found

        return Prepared(elsewhere, device=self.device)


class Queued(Eager):
    """Gives its work to the fake device: results are NaN until somebody waits."""

    devices = DEVICES

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def later(*x):
            found = torch.full_like(call(*x), torch.nan)
            fake_queue.launch(lambda: found.copy_(call(*x)), found.nbytes)
            return found

        def at_once(*x):
            return call(*x)

        return Prepared(at_once if self.device == "cpu" else later, device=self.device)
