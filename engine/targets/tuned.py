"""What a target says of its kernels after their configurations were measured. Knows no target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Tuned(NamedTuple):
    """The configuration of a kernel that was chosen for a class of sizes.

    Attributes:
        source: hash of the kernel's text, for which alone the measurement holds.
        rule: the configuration that is taken where nothing was measured, by name of the field.
        ratio: its time over that of the rule's, median of pairs; 1 if the rule's was chosen.
        low, high: the smallest and the largest of these ratios.
        rounds: measurements of each configuration, and number of pairs unless the rule's was the fastest.
        candidates: number of configurations that ran.
    """

    kernel: str
    source: str
    sizes: str
    rule: Mapping[str, int]
    configuration: Mapping[str, int]
    ratio: float
    low: float
    high: float
    rounds: int
    candidates: int

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "rule": dict(self.rule), "configuration": dict(self.configuration)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Tuned:
        """The inverse of `to_dict`; AttributeError, TypeError or ValueError if `found` was not made by it."""
        if set(found) != set(cls._fields):
            raise ValueError(f"a row must have the fields {', '.join(cls._fields)}, this one has {', '.join(found)}")
        rule, configuration = ({str(k): int(v) for k, v in found[n].items()} for n in ("rule", "configuration"))
        ratio, low, high = (float(found[name]) for name in ("ratio", "low", "high"))
        kernel, source, sizes = (str(found[name]) for name in ("kernel", "source", "sizes"))
        counts = int(found["rounds"]), int(found["candidates"])
        return cls(kernel, source, sizes, rule, configuration, ratio, low, high, *counts)


class Tuning(NamedTuple):
    """What `Program.tune` answers: the table at `path`, and its rows in the order in which they are needed first."""

    device: str
    path: Path
    rows: tuple[Tuned, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"device": self.device, "path": str(self.path), "rows": [row.to_dict() for row in self.rows]}


class TuningOptions(NamedTuple):
    """How to tune.

    Attributes:
        folder: of the table; None: the user's cache.
        clock: has ``measure(run)``, the seconds that the device takes for what `run` enqueues; None: the target's own.
        observe: called before each kernel with its name, its sizes, its number from 0 and the number of all.
    """

    rounds: int = 9
    folder: Path | None = None
    clock: Any = None
    observe: Any = None
