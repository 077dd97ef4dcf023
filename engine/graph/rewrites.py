"""What passes replace in a graph. A rewrite has the exported name of the value that it replaces, so that leaving one
out does not rename the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

MARK = "#"
"""Between the name of a pass and that of the value of one of its rewrites."""


class Rewrite(NamedTuple):
    """The replacements of one value by one pass. As text, a switch that `Config.disable` takes.

    Attributes:
        name: of the pass.
        value: exported name of the value; its own name after ``%`` where it equals no exported value.
        module: such as ``encoder.layer.3.attention``.
    """

    name: str
    value: str
    module: str

    def __str__(self) -> str:
        return f"{self.name}{MARK}{self.value}"


class Rewrites:
    """The rewrites that were made in a graph, and those that the running pass has to leave out.

    Attributes:
        made: in order, each once.
    """

    def __init__(self, made: Collection[Rewrite] = ()) -> None:
        self.made = dict.fromkeys(made)
        self._running = ""
        self._left_out: frozenset[str] = frozenset()

    @contextmanager
    def of_pass(self, name: str, left_out: Collection[str]) -> Iterator[None]:
        """A block in which the pass `name` runs, and leaves out those of `left_out` that are its own."""
        self._running = name
        self._left_out = frozenset(value for own, _, value in (one.partition(MARK) for one in left_out) if own == name)
        try:
            yield
        finally:
            self._running, self._left_out = "", frozenset()

    def admit(self, values: Iterable[str]) -> bool:
        """True if the running pass may replace all values of these names."""
        return self._left_out.isdisjoint(values)

    def add(self, value: str, module: str) -> None:
        """Record that the running pass replaces `value`. Does nothing while none runs."""
        if self._running:
            self.made[Rewrite(self._running, value, module)] = None
