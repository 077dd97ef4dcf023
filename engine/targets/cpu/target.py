"""The cpu: plans each step with kernels of the C library, whose thread pool runs them."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from engine.config import MOST_THREADS, Config
from engine.errors import ConfigError
from engine.graph import Graph
from engine.memory import fault_of_memory
from engine.ops import MAX_RANK
from engine.processors import count_processors
from engine.targets import verify
from engine.targets.base import Prepared, StepPlanner, Target
from engine.targets.bind import bind
from engine.targets.cpu import native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.cpu.weights import Weights
from engine.targets.host import HostDevice
from engine.targets.instruments import Instruments, Roof, Roofs
from engine.targets.plan import BoundPlan, Kernel, NeedsDense, Planned, Step

_CACHE_BYTES = 64 << 20
_LARGE = 64 << 10
_BFLOAT16_ISA = "avx512bf16"
_ROOFS = {"bfloat16": "bf16", "int8": "int8"}
"""Value of the attribute `compute` -> the name of its roof, where that is not float32's."""


class _Planner(StepPlanner):
    """Plans each step with the first kernel of the registry that runs on this machine and accepts the operands."""

    def __init__(self, config: Config) -> None:
        self._variants = config.variant
        self._kernels = native.kernels_for(config.isa)
        self._used: dict[str, bool] = {}  # op of the program with a configured variant -> whether a step uses it
        if "openblas" in config.variant.values():
            native.offer_openblas()

    def plan(self, step: Step, *, copied: bool) -> Planned | NeedsDense | None:
        """As `StepPlanner.plan`. A variant that the configuration names is tried first."""
        kernels = self._kernels.get(step.op, ())
        variant = self._variants.get(step.op)
        if variant is not None:
            self._used.setdefault(step.op, False)
            kernels = (*(kernel for kernel in kernels if kernel.variant == variant), *kernels)
        for kernel in kernels:
            planned = native.plan(step, kernel, requested=kernel.variant == variant)
            if isinstance(planned, Planned):
                if variant == kernel.variant:
                    self._used[step.op] = True
                return planned
            if planned is not None and not copied:
                return planned
        return None

    def check_used(self) -> None:
        for op, used in self._used.items():
            if not used:
                raise ConfigError(f"variant {op}={self._variants[op]!r}: no {op} of this program can use it here")


class CpuInstruments(Instruments):
    """Measure the processors of this machine."""

    def roofs(self, config: Config, computes: AbstractSet[str] = frozenset()) -> Roofs:
        """The roofs of one core, with its best instruction set or that of `config`."""
        flops = native.peak_flops(config.isa)
        products = {
            one: native.peak_flops(config.isa, _ROOFS[one]) or flops for one in sorted(computes & _ROOFS.keys())
        }
        return Roofs(flops, native.read_bandwidth(), _CACHE_BYTES, products)

    def lacks(self, arithmetic: str, config: Config) -> bool:
        """As `Instruments.lacks`: only one instruction set multiplies bfloat16."""
        return arithmetic == "bfloat16" and _BFLOAT16_ISA not in native.isas_within(config.isa)

    def measure_handover(self, first: int, second: int, seconds: float = 0.002) -> float | None:
        return native.measure_handover(first, second, seconds)

    def measure_roof(self, what: str, lanes: int, nbytes: int = 0, seconds: float = 0.05) -> Roof | None:
        """As `Instruments.measure_roof`; `nbytes` is at least 4096."""
        return native.measure_roof(what, lanes, nbytes, seconds)


class CpuDevice(HostDevice):
    """The memory of this process, in which a kernel copies large inputs of any strides: faster than torch does."""

    def make_dense(self, tensor: Any) -> Any:
        size = tensor.element_size()
        if tensor.nbytes < _LARGE or tensor.dim() > MAX_RANK or size > 8:
            return tensor.contiguous()
        dense = tensor.new_empty(tensor.shape)
        if fault_of_memory(dense):  # made by a mode of torch
            return tensor.contiguous()
        native.make_dense(dense.data_ptr(), tensor.data_ptr(), size, tuple(tensor.shape), tensor.stride())
        return dense


class CpuTarget(Target):
    """Runs programs on the processors of this machine."""

    name = "cpu"
    summary = "C kernels for this machine's instruction sets, on a thread pool"
    device = CpuDevice()
    instruments = CpuInstruments()

    def has_kernel(self, op: str, families: AbstractSet[str], compute: str) -> bool:
        kernels = native.kernels_for(None).get(op, ())
        return any(all(native.accepts(kernel, one, compute) for one in {"plain", *families}) for kernel in kernels)

    def new_prepared(self) -> Weights:
        return Weights()

    def bind(self, graph: Graph, config: Config, *, keep: bool = False) -> BoundPlan:
        """Steps and memory of `graph` on this machine; as `engine.targets.bind.bind`."""
        lanes = self.lanes(config)
        plan = bind(graph, _Planner(config), strategy=config.planner, lanes=lanes, keep=keep, check=config.verify)
        if config.verify:
            verify.order(plan, lanes)
        return plan

    def executable(self, graph: Graph, config: Config, prepared: Prepared, *, keep: bool = False) -> CpuExecutable:
        assert isinstance(prepared, Weights)  # noqa: S101  # made by `new_prepared`
        per_node = config.dispatch == "per_node"
        plan = self.bind(graph, config, keep=keep or per_node)
        return CpuExecutable(graph, plan, prepared, self.lanes(config), per_node=per_node)

    def lanes(self, config: Config) -> int:
        """Threads of a call: `Config.threads`; for ``"auto"`` the processors that this process may use now."""
        return min(count_processors(), MOST_THREADS) if config.threads == "auto" else int(config.threads)

    def kernels(self) -> Sequence[Kernel]:
        return native.kernels()

    def available(self, switch: str) -> tuple[str, ...]:
        return native.isas() if switch == "isa" else ()


CPU = CpuTarget()
