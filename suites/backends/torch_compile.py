"""torch.compile with the inductor backend: weights frozen (constant-folded and prepacked), static shapes.

Compilation is lazy, so it happens inside of the first call; that call is what `compile_s` reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.suggest import unknown
from suites.backends.base import Backend, Prepared
from suites.harness.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

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
        from torch._dynamo.utils import counters
        from torch._inductor import list_mode_options

        options: dict[str, Any] = {"freezing": True}
        mode = self.options.get("mode", "default")
        if mode != "default":
            options = {**list_mode_options(mode), **options}
        compiled = torch.compile(model, dynamic=False, options=options)

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return compiled(*arguments)

        breaks_before = sum(counters["graph_break"].values())
        start = time.perf_counter()
        call(*inputs)
        seconds = time.perf_counter() - start
        breaks = sum(counters["graph_break"].values()) - breaks_before
        return Prepared(call, compile_s=seconds, facts={"graph_breaks": breaks})
