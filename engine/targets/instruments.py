"""What measures the machine of a target: roofs, missing instructions, the fastest configurations of kernels.

Beside what runs programs, which need only `Instruments.lacks` of it. Knows graphs and calls; knows no plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.config import Config
from engine.errors import ConfigError
from engine.graph import Graph
from engine.targets.tuned import Tuning, TuningOptions


class Call(NamedTuple):
    """The arguments of a run. States are values of the device, in the order of `Graph.states`."""

    inputs: Sequence[Any]
    states: Sequence[Any] = ()


class Roofs(NamedTuple):
    """What a processor that runs one lane can do at most, measured; 0 where it is not known.

    `flops` counts float32 operations a second, `bandwidth` bytes read. Operands of fewer than `cache_bytes` may come
    from a cache, so no share of the bandwidth is said of them. `products`: value of the attribute `compute` ->
    operations a second of such products, where that is not `flops`.
    """

    flops: float = 0.0
    bandwidth: float = 0.0
    cache_bytes: int = 0
    products: Mapping[str, float] = MappingProxyType({})


class Roof(NamedTuple):
    """Measured peak of several threads together.

    `rate` counts operations or bytes a second, `per_instruction` those of one vector instruction; `clock` is the
    frequency of a processor during the measurement, in Hz.
    """

    rate: float
    clock: float
    per_instruction: float
    isa: str


class Instruments:
    """What a target can tell of its machine: here that it is not known. The target's own override it."""

    def tune(self, graph: Graph, config: Config, prepared: Any, call: Call, options: TuningOptions) -> Tuning:
        """Measure which configurations of kernels are the fastest here, and store them for later programs.

        `prepared` has the program's constants. No size in `graph` is a formula, and the run of `call` changes the
        states. ConfigError if kernels of this target have no configurations to choose from, or the results cannot be
        stored; ExecutionError as `Context.run`.
        """
        del graph, prepared, call, options
        raise ConfigError(
            f"tune: kernels of target {config.target} have no configurations to measure; target triton's have"
        )

    def roofs(self, config: Config, computes: AbstractSet[str] = frozenset()) -> Roofs:
        """The roofs of one lane, measured now (0.3 s; about 1 s on a busy machine). `computes`: keys of `products`."""
        del config, computes
        return Roofs()

    def lacks(self, arithmetic: str, config: Config) -> bool:
        """True if this machine has no instructions for products in `arithmetic`, and computes them in a wider type.

        `arithmetic` is a value of the attribute `compute` of an op; `config` may name an instruction set.
        """
        del arithmetic, config
        return False

    def measure_handover(self, first: int, second: int, seconds: float = 0.002) -> float | None:
        """Seconds until what processor `first` of the host writes is seen on `second`; None where that is unknown.

        This process may use both. The measurement takes `seconds`, of which the best window counts.
        """
        del first, second, seconds
        return None

    def measure_roof(self, what: str, lanes: int, nbytes: int = 0, seconds: float = 0.05) -> Roof | None:
        """The roof `what` of `lanes` workers at once; None where this machine has none.

        ``fp32``, ``bf16`` and ``int8`` count operations of that type, two a multiply-add; ``read`` counts bytes read,
        ``copy`` bytes read and written: each worker reads `nbytes`, or copies half of them to the other half, again and
        again. Each works on a processor of its own where there are enough, for `seconds`, beside making the workers and
        their memory.
        """
        del what, lanes, nbytes, seconds
        return None
