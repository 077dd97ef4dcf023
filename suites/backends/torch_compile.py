"""torch.compile with the inductor backend: weights frozen (constant-folded and prepacked), static shapes.

Compilation is lazy, so it happens inside of the first call; that call is what `compile_s` reads. Text is generated
over transformers' static cache, as its documentation says; the phase that is timed is compiled, the other one is eager.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from engine.suggest import unknown
from suites.backends.base import Backend, Generator, Prepared
from suites.harness.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation

_MODES = ("default", "max-autotune", "max-autotune-no-cudagraphs")


class TorchCompile(Backend):
    """Option ``mode``: one of torch's modes; ``default`` is inductor's own default."""

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """UsageError for an unknown mode."""
        mode = options.get("mode", "default")
        if mode not in _MODES:
            raise UsageError(unknown("mode", mode, _MODES))

    def load(self) -> None:
        """Set torch's threads."""
        import torch

        torch.set_num_threads(self.threads)

    def provision(self) -> None:
        """Compile a toy: inductor probes the C++ compiler once a cache folder (7 s when measured)."""
        import torch

        with torch.inference_mode():
            torch.compile(torch.nn.GELU(), options={"freezing": True})(torch.zeros(64))

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile by calling once."""
        import torch

        compiled = self._compiled(model)

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return compiled(*arguments)

        seconds, breaks = _first(lambda: call(*inputs))
        return Prepared(call, compile_s=seconds, facts={"graph_breaks": breaks})

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        """Compile the phase of `model` by going through it once."""
        from suites.backends import _static_cache

        steps = {phase: self._compiled if phase == model.phase else _as_it_is for phase in ("prefill", "decode")}
        prefill, decode = _static_cache.made(model, **steps)
        if model.phase == "prefill":
            seconds, breaks = _first(lambda: prefill(inputs[0]))
        else:
            prefill(inputs[0])
            seconds, breaks = _first(lambda: decode(inputs[1][:, :1]))
        return Generator(prefill, decode, compile_s=seconds, facts={"graph_breaks": breaks})

    def _compiled(self, model: Callable[..., Any]) -> Callable[..., Any]:
        import torch
        from torch._inductor import list_mode_options

        options: dict[str, Any] = {"freezing": True}
        mode = self.options.get("mode", "default")
        if mode != "default":
            options = {**list_mode_options(mode), **options}
        compiled: Callable[..., Any] = torch.compile(model, dynamic=False, options=options)
        return compiled


def _as_it_is(step: Callable[..., Any]) -> Callable[..., Any]:
    return step


def _first(call: Callable[[], Any]) -> tuple[float, int]:
    """Seconds of a first call, which compiles, and the graph breaks that it met."""
    from torch._dynamo.utils import counters

    before = sum(counters["graph_break"].values())
    start = time.perf_counter()
    call()
    return time.perf_counter() - start, sum(counters["graph_break"].values()) - before
