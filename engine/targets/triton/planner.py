"""Plans the steps of one program with the table of Triton kernels."""

from __future__ import annotations

from engine.errors import ConfigError
from engine.targets.base import StepPlanner
from engine.targets.plan import Kernel, NeedsDense, Planned, Step
from engine.targets.triton import kernel_table


class TritonPlanner(StepPlanner):
    """Plans each step with the first kernel of the table that accepts it; requested variants are asked first."""

    def __init__(self, device: kernel_table.Gpu) -> None:
        self._device = device
        # Op of the program with a requested variant -> True if a step uses the variant.
        self._used: dict[str, bool] = {}

    def plan(self, step: Step, *, copied: bool) -> Planned | NeedsDense | None:
        requested = self._device.variants.get(step.op)
        if requested is not None:
            self._used.setdefault(step.op, False)
        attributes = {} if step.node is None else step.node.attributes
        request = kernel_table.request_of(step, attributes, self._device, copied=copied)
        found = kernel_table.plan_step(request)
        if not isinstance(found, tuple):
            return found
        declared, launches = found
        if requested == declared.variant:
            self._used[step.op] = True
        kernel = Kernel(declared.name, declared.op, declared.variant)
        return Planned(kernel, scratch_bytes=launches.scratch_bytes, handle=launches)

    def check_used(self) -> None:
        for op, used in self._used.items():
            if not used:
                requested = self._device.variants[op]
                raise ConfigError(f"variant {op}={requested!r}: no {op} of this program can use it")
