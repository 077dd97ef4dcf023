"""GPUs through Triton kernels. Importing this module imports neither triton nor torch."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from engine.config import Config
from engine.ops import TABLE, TensorType
from engine.program import Artifact
from engine.targets.base import Prepared, StepPlanner, Target
from engine.targets.bind import bind
from engine.targets.plan import Kernel, NeedsDense, Planned, Step
from engine.targets.triton import registry
from engine.targets.triton.constants import Constants
from engine.targets.triton.device import TritonDevice, is_interpreted
from engine.targets.triton.executable import TritonExecutable

INTERPRETED_MULTIPROCESSORS = 4
"""For which the interpreter plans: few enough that tests take little time, and enough that sums are split."""
VERSIONS = ("3.6", "3.7")
"""Of triton, for which the kernels are checked; the extra `gpu` of pyproject.toml names the same."""
MINIMUM_CAPABILITY = (8, 0)
"""Compute capability of the oldest GPUs that multiply bfloat16."""


class _Planner(StepPlanner):
    """Plans each step with the first kernel of the table that accepts it."""

    def __init__(self, artifact: Artifact, device: registry.Device) -> None:
        self._artifact, self._device = artifact, device

    def plan(self, step: Step, *, copied: bool) -> Planned | NeedsDense | None:
        """As `StepPlanner.plan`."""
        attributes = {} if step.instruction is None else self._artifact.instructions[step.instruction].attributes
        request = registry.request_of(step, attributes, self._device, copied=copied)
        found = registry.plan_step(request)
        if not isinstance(found, tuple):
            return found
        declared, launches = found
        kernel = Kernel(declared.name, declared.op, declared.variant)
        return Planned(kernel, scratch_bytes=launches.scratch_bytes, handle=launches)


class TritonTarget(Target):
    """Runs programs on a CUDA device."""

    name = "triton"
    summary = "Triton kernels on a CUDA device"
    device: TritonDevice

    def __init__(self) -> None:
        self.device = TritonDevice()

    def unavailable(self) -> str | None:
        """As `Target.unavailable`."""
        return _find_obstacle()

    def supports(self, op: str, inputs: Sequence[TensorType | None], attributes: Mapping[str, Any]) -> str | None:
        """As `Target.supports`: None for a view, or if a kernel reads the inputs as they are encoded."""
        families = {one.encoding.family for one in inputs if one is not None and one.encoding is not None}
        if TABLE[op].view is not None and not families:
            return None
        known = registry.kernels().get(op, ())
        if not known:
            return "there is no Triton kernel for it"
        compute = attributes.get("compute", "element")
        if any(families <= one.encodings and compute in one.compute for one in known):
            return None
        reads = f" reads {', '.join(sorted(families))} operands" if families else " runs it"
        return f"no Triton kernel{reads}" + (f" and computes in {compute}" if compute != "element" else "")

    def prepare(self, artifact: Artifact, *, borrowed: bool) -> Constants:
        """As `Target.prepare`: all constants are copied to the device."""
        del borrowed
        return Constants(artifact, self.device)

    def executable(
        self, artifact: Artifact, config: Config, prepared: Prepared, *, keep: bool = False
    ) -> TritonExecutable:
        """As `Target.executable`."""
        assert isinstance(prepared, Constants)  # noqa: S101  # made by `prepare`
        planner = _Planner(artifact, self._describe(config))
        plan = bind(artifact, planner, strategy=config.planner, keep=keep, check=config.verify)
        return TritonExecutable(artifact, plan, prepared, self.device)

    def _describe(self, config: Config) -> registry.Device:
        """What plans depend on."""
        if is_interpreted():
            return registry.Device(multiprocessors=INTERPRETED_MULTIPROCESSORS, allow_tf32=config.tf32)
        import torch

        found = torch.cuda.get_device_properties(self.device.place)
        return registry.Device(found.name, found.multi_processor_count, config.tf32)

    def kernels(self) -> Sequence[Kernel]:
        """The table of kernels; empty where triton is not installed."""
        if find_missing_package() is not None:
            return ()
        known = (one for of_op in registry.kernels().values() for one in of_op)
        return [Kernel(one.name, one.op, one.variant) for one in known]


@cache
def find_missing_package() -> str | None:
    """Why the kernels cannot be imported; None if they can."""
    found = {}
    for package in ("torch", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return f"the package {package} is not installed; pip install 'enginebench[gpu]' brings it"
    if ".".join(found["triton"].split(".")[:2]) not in VERSIONS:
        return f"triton {found['triton']} is installed; the kernels are written for {' and '.join(VERSIONS)}"
    return None


def _find_obstacle() -> str | None:
    """Why this process cannot run kernels; None if it can."""
    if (missing := find_missing_package()) is not None or is_interpreted():
        return missing
    import torch

    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else f"; torch {torch.__version__} is built without CUDA"
        return f"there is no CUDA device{built}"
    found = torch.cuda.get_device_capability()
    if found < MINIMUM_CAPABILITY:
        wanted, got = (".".join(map(str, one)) for one in (MINIMUM_CAPABILITY, found))
        return f"{torch.cuda.get_device_name()} has compute capability {got}; kernels need {wanted}"
    return None


TRITON = TritonTarget()
