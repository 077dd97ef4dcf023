"""A case (model x shape x options x threads x precision x switches), its id, and a backend as a suite names it.

Owns the two grammars that records, tables and the command line share. Knows no model and imports no backend.

Case id:       ``bert/b1_s128/t1/fp32[/key=value...]`` (options of the model first, then switches, each sorted, then
``io=numpy`` where calls take and give NumPy arrays, then ``device=cuda`` where it is not the cpu).
Backend label: ``engine``, ``eager#2`` (a second copy), ``engine[disable=fuse_gelu,planner=none]``, ``path.py:Class``,
``engine@PATH`` (another version of the engine; records say ``engine@COMMIT``, see `suites.backends.versions`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from suites.harness.declare.device import CPU, label
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError

Scalar = str | int | float | bool
SAME_WITHIN = 0.02
"""Times whose speed is within 2% of 1 are `same`, unless a suite says otherwise."""
_SHORT = {"batch": "b", "sequence": "s"}
_LABEL = re.compile(r"(?P<name>[^\[\]#]+?)(?:\[(?P<options>[^\[\]]*)\])?(?:#(?P<copy>\d+))?")


@dataclass(frozen=True)
class Case:
    """One thing to measure, the same for every backend.

    Attributes:
        model: a name that ``suites.models`` knows, or ``path.py:factory``.
        shape: sizes such as ``{"batch": 1, "sequence": 128}``.
        threads: worker threads of every backend.
        precision: a name of `suites.harness.declare.precision.PRECISIONS`.
        options: variants of the model, such as ``{"attention": "sdpa"}``.
        switches: options for the backends that have such switches, such as ``{"disable": "fuse_gelu"}``.
        io: what every backend takes and must give: ``torch`` for tensors, ``numpy`` for arrays.
        device: where the model runs and its tensors are: a name of `suites.harness.declare.device.DEVICES`, or
            ``path.py:Class``.
        recipe: pairs of a pattern of layer names and a precision, of the case whose right outputs a backend that stores
            single layers in other precisions is compared with. Such a case is never run; it has no id of its own.
    """

    model: str
    shape: Mapping[str, int]
    threads: int = 1
    precision: str = "fp32"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    io: str = "torch"
    device: str = CPU
    recipe: Sequence[Sequence[str]] = ()

    @property
    def id(self) -> str:
        """The name of the case in records and tables; names no folder of this machine."""
        sizes = "_".join(f"{_SHORT.get(key, key)}{value}" for key, value in self.shape.items()) or "default"
        parts = [PurePath(self.model).name, sizes, f"t{self.threads}", self.precision]
        for chosen in (self.options, self.switches):
            parts += [f"{key}={chosen[key]}" for key in sorted(chosen)]
        parts += [f"io={self.io}"] if self.io != "torch" else []
        parts += [f"device={label(self.device)}"] if self.device != CPU else []
        return "/".join(parts)

    @property
    def computation(self) -> str:
        """What is computed, whoever does it and with how many threads: equal texts, equal functions."""
        recipe = [list(map(list, self.recipe))] if self.recipe else []
        return json.dumps([self.model, self.build_arguments, self.precision, *recipe], sort_keys=True)

    @property
    def build_arguments(self) -> dict[str, Scalar]:
        """Keyword arguments of the model's ``build``."""
        return {**self.shape, **self.options}

    @property
    def fields(self) -> dict[str, Scalar]:
        """What ``--only`` may ask about."""
        fixed: dict[str, Scalar] = {"case": self.id, "model": self.model, "threads": self.threads}
        fixed |= {"precision": self.precision, "io": self.io, "device": label(self.device)}
        return {**self.switches, **self.options, **self.shape, **fixed}

    @property
    def impossible(self) -> str | None:
        """Why no backend can run the case; None where some may."""
        refused = PRECISIONS[self.precision].refused
        if refused is None and self.io == "numpy":
            if self.precision == "bf16":
                return "NumPy has no bfloat16: bf16 needs io = torch"
            if self.device != CPU:
                return f"NumPy arrays are in the memory of the host: device {label(self.device)} needs io = torch"
        return refused

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values; ``Case(**case.to_dict())`` is the same case."""
        return asdict(self)


@dataclass(frozen=True)
class BackendRef:
    """A backend as a suite names it.

    Attributes:
        name: a declared name, ``path.py:Class``, or that of another version of the engine.
        options: switches of this backend, over those of the case.
        copy: 1, or the number of a further copy of the same backend (an A/A pair).
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    copy: int = 1

    @property
    def label(self) -> str:
        """The name in records and tables. It names no folder: of a path it has the last part."""
        return self._spell(PurePath(self.name).name, self.named_options)

    @property
    def spelling(self) -> str:
        """The text that `parse` reads as this very backend, with every path."""
        return self._spell(self.name, self.options)

    @property
    def named_options(self) -> dict[str, str]:
        """The options as records have them: of a path, such as that of a recipe, the last part."""
        return {key: re.sub(r"[^+]*/(?=[^+])", "", value) for key, value in self.options.items()}

    def _spell(self, name: str, options: Mapping[str, str]) -> str:
        chosen = ",".join(f"{key}={options[key]}" for key in sorted(options))
        return name + (f"[{chosen}]" if chosen else "") + (f"#{self.copy}" if self.copy > 1 else "")

    def again(self, copy: int = 2) -> BackendRef:
        """The same backend under another label."""
        return BackendRef(self.name, self.options, copy)

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        return asdict(self)

    @staticmethod
    def parse(text: str) -> BackendRef:
        """The reference that `text` spells; UsageError where it spells none."""
        found = _LABEL.fullmatch(text.strip())
        given = [part.partition("=") for part in (found["options"] or "").split(",") if part] if found else []
        options = {key.strip(): value.strip() for key, _, value in given}
        has_both = all(key and value for key, value in options.items())
        if not found or len(options) < len(given) or not has_both:
            raise UsageError(
                f"backend {text!r}: expected name, name[key=value,...] with each key once, engine@PATH or path.py:Class"
            )
        return BackendRef(found["name"].strip(), options, int(found["copy"] or 1))


def split_labels(text: str) -> list[str]:
    """Labels of a comma-separated list, each once; commas inside of brackets belong to a label."""
    return list(dict.fromkeys(part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()))
