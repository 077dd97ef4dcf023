"""The only knobs there are. Each ablation is a change of one field. Knows names, not what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from engine.errors import ConfigError
from engine.suggest import unknown

EXECUTORS = ("native", "interpreter")
FALLBACKS = ("torch",)
DISPATCHES = ("whole", "per_node")
OUTPUTS = ("recycled", "fresh")
MOST_THREADS = 1024
ISAS = ("generic", "avx2", "avx512", "neon")


@dataclass(frozen=True)
class Config:
    """How to compile and run. Immutable; names are checked when it is made.

    Attributes:
        executor: ``native`` (C) or ``interpreter`` (the NumPy references).
        threads: threads of one call, the caller included; ``"auto"``: as many as processors that the process may use,
            by its affinity mask and the CPU quota of its control groups, whenever a memory plan is made.
        precision: None, the model's own element types. Nothing else is offered yet.
        fallback: None: what cannot be compiled is an error; ``"torch"``: torch runs it, in segments of its own.
        disable: passes to leave out of the pipeline.
        variant: op name -> kernel variant that must be used where it applies, such as ``{"linear": "openblas"}``.
        pipeline: pass names in the order to run them; None is the default pipeline.
        planner: memory planning strategy.
        dispatch: ``whole``: one C call a run; ``per_node``: one C call a node, arena without reuse.
        outputs: ``recycled``: large results lie where earlier ones did that nobody refers to any longer, and up to 256
            MiB wait for such results; ``fresh``: each gets memory of its own, which can be resized.
        isa: the best instruction set to use; None is the best this machine has.
        plans: memory plans kept of a program whose sizes differ from call to call: those of the latest combinations.
    """

    executor: str = "native"
    threads: int | str = 1
    precision: str | None = None
    fallback: str | None = None
    disable: tuple[str, ...] = ()
    variant: Mapping[str, str] = field(default_factory=dict)
    pipeline: tuple[str, ...] | None = None
    planner: str = "default"
    dispatch: str = "whole"
    outputs: str = "recycled"
    isa: str | None = None
    plans: int = 16

    def __post_init__(self) -> None:
        from engine.switches import kernel_variants, names

        _one_of("executor", self.executor, EXECUTORS)
        _one_of("dispatch", self.dispatch, DISPATCHES)
        _one_of("outputs", self.outputs, OUTPUTS)
        if self.isa is not None:
            _one_of("isa", self.isa, ISAS)
        counted = isinstance(self.threads, int) and not isinstance(self.threads, bool)
        if self.threads != "auto" and not (counted and 1 <= int(self.threads) <= MOST_THREADS):
            raise ConfigError(
                f'threads: expected a whole number from 1 to {MOST_THREADS} or "auto", got {self.threads!r}'
            )
        if type(self.plans) is not int or self.plans < 1:
            raise ConfigError(f"plans: expected a whole number from 1 on, got {self.plans!r}")
        if self.precision is not None:
            raise ConfigError(f"precision: only None (the model's own dtypes) is offered, got {self.precision!r}")
        if self.fallback is not None:
            _one_of("fallback", self.fallback, FALLBACKS)
        for field_name in ("disable", "pipeline"):
            value = getattr(self, field_name)
            if field_name == "pipeline" and value is None:
                continue
            if not isinstance(value, tuple | list):
                raise ConfigError(f"{field_name}: expected a tuple of pass names, got {value!r}")
            object.__setattr__(self, field_name, tuple(value))
        if not isinstance(self.variant, Mapping):
            raise ConfigError(f'variant: expected a dict such as {{"linear": "packed"}}, got {self.variant!r}')
        object.__setattr__(self, "variant", _FrozenDict(self.variant))
        for name in (*self.disable, *(self.pipeline or ())):
            _one_of("pass", name, names("pass"))
        _one_of("planner", self.planner, names("planner"))
        for op, variant in self.variant.items():
            known = kernel_variants()
            _one_of("variant: op", op, tuple(known))
            _one_of(f"variant of {op}", variant, known[op])

    @property
    def target(self) -> str:
        """The target whose own passes run: the CPU's, since the interpreter runs what the C library runs."""
        return "cpu"

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"variant": dict(self.variant)}


class _FrozenDict(dict[str, str]):
    """A hashable dict, so that Config is hashable."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict sets it to None; this one never changes
        return hash(tuple(sorted(self.items())))


def _one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(unknown(what, value, known))
