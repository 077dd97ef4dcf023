"""This engine inside of torch.compile: what Dynamo and AOT autograd cost beside a program.

Compilation is lazy, so it happens inside of the first call; that call is what `compile_s` reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from suites.backends.base import Backend, Prepared
from suites.backends.engine import Engine, facts_of

if TYPE_CHECKING:
    from torch import Tensor, nn


class EngineDynamo(Engine):
    """Options as the engine's own."""

    takes_numpy = False
    targets: ClassVar[Mapping[str, str]] = {}

    program_facts = Backend.program_facts  # not of an exported model

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile by calling once. The facts are those of the program where the whole model is one graph."""
        import torch

        import engine.dynamo
        from suites.backends._buffers import Buffers

        ready = Buffers(model, self.state).ready
        torch.set_num_threads(self.threads)
        compiled = torch.compile(model, backend="engine", dynamic=False, options=self.config())

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return compiled(*arguments)

        start = time.perf_counter()
        call(*inputs)
        seconds = time.perf_counter() - start
        reports = [report.to_dict() for report in engine.dynamo.reports()]
        facts = facts_of(reports[0]) if len(reports) == 1 else {}
        facts |= {"graph_breaks": len(reports) - 1, "fallback_nodes": sum(r["fallback_nodes"] for r in reports)}
        return Prepared(call, compile_s=seconds, facts=facts, ready=ready, precision=self.precision)
