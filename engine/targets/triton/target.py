"""GPUs through Triton kernels. Importing this module imports neither triton nor torch."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from engine.config import Config
from engine.ops import TABLE, TensorType
from engine.program import Artifact
from engine.switches import Switch, register, register_source
from engine.targets.base import Call, Prepared, Target
from engine.targets.bind import bind
from engine.targets.plan import Kernel
from engine.targets.triton import kernel_table
from engine.targets.triton.configurations import (
    Finder,
    RuleOnly,
    check_folder,
    measured_on,
    user_folder,
    write_rows,
)
from engine.targets.triton.constants import Constants
from engine.targets.triton.device import TritonDevice, is_interpreted
from engine.targets.triton.executable import TritonExecutable
from engine.targets.triton.planner import TritonPlanner
from engine.targets.tuned import Tuning, TuningOptions

INTERPRETED_MULTIPROCESSORS = 4
"""For which the interpreter plans: few enough that tests take little time, and enough that sums are split."""
VERSIONS = ("3.6", "3.7")
"""Of triton, for which the kernels are checked; the extra `gpu` of pyproject.toml names the same."""
MINIMUM_CAPABILITY = (8, 0)
"""Compute capability of the oldest GPUs that multiply bfloat16."""


class TritonTarget(Target):
    """Runs programs on a CUDA device."""

    name = "triton"
    summary = "Triton kernels on a CUDA device"
    activations = "model"
    device: TritonDevice

    def __init__(self) -> None:
        self.device = TritonDevice()

    def unavailable(self) -> str | None:
        return _find_obstacle()

    def supports(self, op: str, inputs: Sequence[TensorType | None], attributes: Mapping[str, Any]) -> str | None:
        """As `Target.supports`: None for a view, or if a kernel reads the inputs as they are encoded."""
        families = {one.encoding.family for one in inputs if one is not None and one.encoding is not None}
        if TABLE[op].view is not None and not families:
            return None
        known = kernel_table.kernels().get(op, ())
        if not known:
            return "there is no Triton kernel for it"
        compute = attributes.get("compute", "element")
        if any(families <= one.encodings and compute in one.compute for one in known):
            return None
        reads = f" reads {', '.join(sorted(families))} operands" if families else " runs it"
        return f"no Triton kernel{reads}" + (f" and computes in {compute}" if compute != "element" else "")

    def find_refusal(
        self, op: str, inputs: Sequence[TensorType | None], output: TensorType, attributes: Mapping[str, Any]
    ) -> str | None:
        """As `Target.find_refusal`: plans the op on dense operands. Inputs that are encoded are not planned."""
        refusal = self.supports(op, inputs, attributes)
        is_encoded = any(one is not None and one.encoding is not None for one in inputs)
        if refusal is not None or is_encoded or TABLE[op].view is not None:
            return refusal
        if kernel_table.plan_step(kernel_table.request_of_types(op, inputs, output, attributes)) is not None:
            return None
        return "no Triton kernel takes these types, sizes and attributes"

    def prepare(self, artifact: Artifact, *, borrowed: bool) -> Constants:
        """As `Target.prepare`: all constants are copied to the device."""
        del borrowed
        return Constants(artifact, self.device)

    def executable(
        self, artifact: Artifact, config: Config, prepared: Prepared, *, keep: bool = False
    ) -> TritonExecutable:
        assert isinstance(prepared, Constants)  # noqa: S101  # made by `prepare`
        planner = TritonPlanner(artifact, self._describe(config))
        plan = bind(artifact, planner, strategy=config.planner, keep=keep, check=config.verify)
        return TritonExecutable(artifact, plan, prepared, self.device)

    def _describe(self, config: Config) -> kernel_table.Gpu:
        name, multiprocessors = "", INTERPRETED_MULTIPROCESSORS
        if not is_interpreted():
            import torch

            found = torch.cuda.get_device_properties(self.device.place)
            name, multiprocessors = found.name, found.multi_processor_count
        return kernel_table.Gpu(name, multiprocessors, config.tf32, self._find_configurations(name), config.variant)

    def _find_configurations(self, name: str) -> Finder:
        """What was measured on a kind of device; nothing for the interpreter."""
        return measured_on(name) if name else RuleOnly()

    def tune(
        self, artifact: Artifact, config: Config, prepared: Prepared, call: Call, options: TuningOptions
    ) -> Tuning:
        from engine.targets.triton import tuning

        facts = self._describe(config)._replace(configurations=RuleOnly())
        name, folder = facts.name or "interpreter", options.folder or user_folder()
        check_folder(folder, name)
        with self.device.selected():
            rows = tuning.tune(artifact, prepared, self.device, facts, call, options)
        versions = {package: importlib.metadata.version(package) for package in ("torch", "triton")}
        return Tuning(name, write_rows(folder, name, rows, versions), tuple(rows))

    def kernels(self) -> Sequence[Kernel]:
        """The table of kernels; empty where triton is not installed."""
        if find_missing_package() is not None:
            return ()
        known = (one for of_op in kernel_table.kernels().values() for one in of_op)
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
        requested, got = (".".join(map(str, one)) for one in (MINIMUM_CAPABILITY, found))
        return f"{torch.cuda.get_device_name()} has compute capability {got}; kernels need {requested}"
    return None


def _register_variants() -> None:
    """Register the names that `Config.variant` can have; none if the kernels cannot be imported."""
    for one in TRITON.kernels():
        summary = f"run {one.op} by the {one.variant} kernel where it applies"
        register(Switch(_VARIANTS, f"{one.op}={one.variant}", "", summary))


TRITON = TritonTarget()
_VARIANTS = f"kernel of {TRITON.name}"
register_source(_VARIANTS, _register_variants)
