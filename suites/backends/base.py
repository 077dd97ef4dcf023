"""What a competitor must offer. Knows no runtime; torch only by type.

The worker imports what the registry declares, then calls, in this order and timing each: `load`, `prepare` (export and
compile), the first call, then steady calls. Everybody takes torch CPU tensors and gives torch CPU tensors, so
conversions are paid by whoever needs them.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to be called.

    Attributes:
        call: tensors -> outputs in any nesting of tuples, lists, mappings and dataclasses.
        export_s: seconds spent on capturing the model; None where there is no such step.
        compile_s: seconds spent on compiling beyond that; None where there is no such step.
        facts: further columns of the record: nodes, launches, arena_bytes, weight_bytes, artifact_bytes, flops, bytes,
            fallback_nodes, run_digest. What is not known is left out.
    """

    call: Callable[..., Any]
    export_s: float | None = None
    compile_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Backend(ABC):
    """One competitor in one process.

    Args:
        threads: worker threads to use. The environment (OMP_NUM_THREADS and its like) already says so.
        options: switches of this backend, as text.
    """

    def __init__(self, threads: int, options: Mapping[str, str]) -> None:
        self.threads = threads
        self.options = dict(options)
        self.exports: Path | None = None
        """An existing folder that later processes of the same backend and case see; None where there are none."""

    @classmethod  # noqa: B027  # most have no options whose values could be wrong
    def check_options(cls, options: Mapping[str, str]) -> None:
        """EngineError where a value of `options` names nothing; their keys are checked by the registry."""

    def kept(self, name: str) -> Path | None:
        """Where an exported model may be kept, so that later processes need not export again; None: nowhere."""
        return self.exports / name if self.exports is not None else None

    @abstractmethod
    def load(self) -> None:
        """Import what else the runtime needs, set its threads. Timed as `import_s`, with the declared imports."""

    def provision(self) -> None:  # noqa: B027  # most have nothing to do
        """What a machine pays once and not for every model, such as probing the C++ compiler. Untimed, once a run.

        Called only for backends that are declared with `provisions`; results go where the environment says.
        """

    @abstractmethod
    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Make `model` (in eval mode) callable for inputs like `inputs`."""


def flatten(outputs: Any) -> list[Tensor]:
    """Tensors of nested outputs in order; None is skipped; TypeError for anything that is no tensor."""
    import torch

    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if outputs is None:
        return []
    if isinstance(outputs, Mapping):
        return [tensor for value in outputs.values() for tensor in flatten(value)]
    if isinstance(outputs, Sequence) and not isinstance(outputs, str | bytes):
        return [tensor for value in outputs for tensor in flatten(value)]
    if dataclasses.is_dataclass(outputs) and not isinstance(outputs, type):
        return [tensor for entry in dataclasses.fields(outputs) for tensor in flatten(getattr(outputs, entry.name))]
    raise TypeError(f"an output is {type(outputs).__name__}; expected tensors")
