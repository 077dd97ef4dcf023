"""GPUs through Triton kernels. Importing this module imports neither triton nor torch."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

from engine.config import Config
from engine.graph import Graph
from engine.ops import TABLE, TensorType
from engine.switches import Switch, register, register_source
from engine.targets.base import Prepared, Target
from engine.targets.bind import bind
from engine.targets.instruments import Call, Instruments
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
        self.instruments = TritonInstruments(self)

    def unavailable(self) -> str | None:
        return _find_obstacle()

    def has_kernel(self, op: str, families: AbstractSet[str], compute: str) -> bool:
        known = kernel_table.kernels().get(op, ())
        return any(families <= one.encodings and compute in one.compute for one in known)

    def supports(
        self,
        op: str,
        inputs: Sequence[TensorType | None],
        attributes: Mapping[str, Any],
        output: TensorType | None = None,
    ) -> str | None:
        """As `Target.supports`; with `output` it plans the op on dense operands. Encoded inputs are not planned."""
        refusal = super().supports(op, inputs, attributes)
        is_encoded = any(one is not None and one.encoding is not None for one in inputs)
        if output is None or refusal is not None or is_encoded or TABLE[op].view is not None:
            return refusal
        if kernel_table.plan_step(kernel_table.request_of_types(op, inputs, output, attributes)) is not None:
            return None
        return "no kernel takes these types, sizes and attributes"

    def new_prepared(self) -> Constants:
        return Constants(self.device)

    def executable(self, graph: Graph, config: Config, prepared: Prepared, *, keep: bool = False) -> TritonExecutable:
        assert isinstance(prepared, Constants)  # noqa: S101  # made by `prepare`
        planner = TritonPlanner(self.describe_gpu(config))
        plan = bind(graph, planner, strategy=config.planner, keep=keep, check=config.verify)
        return TritonExecutable(graph, plan, prepared, self.device)

    def describe_gpu(self, config: Config) -> kernel_table.Gpu:
        """The device, for the table of kernels."""
        name, multiprocessors = "", INTERPRETED_MULTIPROCESSORS
        if not is_interpreted():
            import torch

            found = torch.cuda.get_device_properties(self.device.place)
            name, multiprocessors = found.name, found.multi_processor_count
        return kernel_table.Gpu(name, multiprocessors, config.tf32, self._find_configurations(name), config.variant)

    def _find_configurations(self, name: str) -> Finder:
        """What was measured on a kind of device; nothing for the interpreter."""
        return measured_on(name) if name else RuleOnly()

    def kernels(self) -> Sequence[Kernel]:
        """The table of kernels; empty where triton is not installed."""
        if find_missing_package() is not None:
            return ()
        known = (one for of_op in kernel_table.kernels().values() for one in of_op)
        return [Kernel(one.name, one.op, one.variant) for one in known]


class TritonInstruments(Instruments):
    """Measure configurations of kernels on the device of a target."""

    def __init__(self, target: TritonTarget) -> None:
        self._target = target

    def tune(self, graph: Graph, config: Config, prepared: Any, call: Call, options: TuningOptions) -> Tuning:
        from engine.targets.triton import tuning

        device = self._target.device
        facts = self._target.describe_gpu(config)._replace(configurations=RuleOnly())
        name, folder = facts.name or "interpreter", options.folder or user_folder()
        check_folder(folder, name)
        with device.selected():
            rows = tuning.tune(graph, prepared, device, facts, call, options)
        versions = {package: importlib.metadata.version(package) for package in ("torch", "triton")}
        return Tuning(name, write_rows(folder, name, rows, versions), tuple(rows))


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
