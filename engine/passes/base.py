"""The declaration of a pass: a name, a function, and the passes before and after it, with reasons. Knows no pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from engine.graph import Graph

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Pass:
    """A named pass of the pipeline. In any order of passes, a pass does not change the function that a graph computes.

    Attributes:
        name: the name of its switch. For a pass of this repository, also the name of its file.
        after: name of another pass -> why it has to run before every run of this pass.
        before: name of another pass -> why it has to run after every run of this pass.
        target: the target to which it belongs; None for a pass of all targets.
        summary: one line; by default the first line of the docstring of the function's module.
        version: for a pass from outside of this repository, digits of the hash of its file; otherwise empty.
    """

    name: str
    run: Callable[[Graph], int]
    after: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    before: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    target: str | None = None
    summary: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        text = self.summary or getattr(self.run, "__globals__", {}).get("__doc__") or ""
        object.__setattr__(self, "summary", text.strip().split("\n")[0].rstrip("."))

    @property
    def label(self) -> str:
        """Its name in reports and program files: `name`, or ``name@version`` if it has a version."""
        return f"{self.name}@{self.version}" if self.version else self.name


class Constraint(NamedTuple):
    """`earlier` has to run before `later`, because of `reason`. `owner` is the pass of the two that states it."""

    earlier: str
    later: str
    owner: str
    reason: str

    def __str__(self) -> str:
        return f"{self.earlier} must run before {self.later}: {self.reason} (stated by {self.owner})"


def constraints(passes: Sequence[Pass]) -> Iterator[Constraint]:
    """All constraints that `passes` state."""
    for one in passes:
        for name, reason in one.after.items():
            yield Constraint(name, one.name, one.name, reason)
        for name, reason in one.before.items():
            yield Constraint(one.name, name, one.name, reason)


def violations(passes: Sequence[Pass]) -> list[Constraint]:
    """The constraints that this order of passes breaks. A pass may run several times; a missing one breaks none.

    ``a.after[b]``: b runs before every run of a. ``a.before[b]``: b runs after every run of a.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, one in enumerate(passes):
        first.setdefault(one.name, position)
        last[one.name] = position

    def is_broken(found: Constraint) -> bool:
        if found.earlier not in first or found.later not in first:
            return False
        at = first if found.owner == found.later else last
        return at[found.earlier] > at[found.later]

    stated = constraints(list({one.name: one for one in passes}.values()))
    return [found for found in stated if is_broken(found)]
