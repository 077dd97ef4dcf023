"""What every compiled model offers, whoever runs it; and the choice of what runs for the sizes of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from engine.config import Config
from engine.errors import StaleWeightsWarning
from engine.graph import Graph
from engine.runtime.boundary import Boundary
from engine.runtime.cache import LatestUsed
from engine.runtime.report import Profile, Report
from engine.runtime.requests import refuse_to_copy
from engine.runtime.state import State
from engine.runtime.trace import Trace
from engine.runtime.warn import warn
from engine.targets.tuned import Tuning

Runner = TypeVar("Runner")
"""What runs a model whose sizes are all known."""


class CompiledModel(ABC, Generic[Runner]):
    """A model that `engine.compile` compiled. Immutable; may be called from any number of threads at once.

    Where sizes may differ from call to call, a plan is made for each combination of them at its first call, and the
    latest `Config.plans` plans are kept.

    Args:
        interface: a graph whose signature, sizes and types are those of the model.
        config: the switches.
        serial: as for `LatestUsed`: only one thread at a time makes what runs for new sizes.
        find_changed: returns the names of the weights of the user's model that have changed since it was compiled; None
            for a program that was loaded.

    Attributes:
        config: the switches.
    """

    _HOW_TO_KEEP: str
    """What a user can do who wants to pickle the model, for the error message."""

    _example: Runner  # what runs for the sizes of the example inputs; set by subclasses

    def __init__(
        self,
        interface: Graph,
        config: Config,
        *,
        serial: bool,
        find_changed: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self._find_changed = find_changed
        self.config = config
        self._interface = interface
        self._boundary = Boundary(interface)
        self._serial = serial

    def _warn_of_changed_weights(self) -> None:
        """Issue a StaleWeightsWarning if the user's model has other weights than the program.

        It is issued each time: a user who missed it at `report` must see it at `save`.
        """
        changed = () if self._find_changed is None else self._find_changed()
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            warn(
                f"weights of {self._interface.name} changed after it was compiled: {', '.join(changed[:3])}{more}. "
                "The program keeps the former weights; compile the model again to use the new ones.",
                StaleWeightsWarning,
            )

    # --- for known sizes -----------------------------------------------------------------------------------------

    @abstractmethod
    def _make(self, sizes: tuple[int, ...]) -> Runner:
        """Makes what runs for these sizes, in the order of the interface's symbols."""

    @cached_property
    def _plans(self) -> LatestUsed[tuple[int, ...], Runner]:
        return LatestUsed(self.config.plans, serial=self._serial)

    def _at(self, sizes: tuple[int, ...]) -> Runner:
        """What runs for these sizes, in the order of the interface's symbols."""
        return self._plans.get(sizes, self._make)

    def _at_example(self) -> Runner:
        """What runs for the sizes of the example inputs. The first call of all, by the constructor."""
        is_fixed, example = self._interface.is_fixed, tuple(self._interface.scope.example.values())
        return self._make(example) if is_fixed else self._at(example)

    def _for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Runner:
        """What runs for the sizes of these arguments. Raises ShapeError where there can be nothing."""
        return self._example if self._interface.is_fixed else self._at(self._boundary.sizes(args, kwargs))

    def _for_report(self, sizes: Mapping[str, int]) -> tuple[Runner, tuple[str, ...]]:
        """What runs for the sizes that a user names, and `Report.sizes` of it. Raises as `report`."""
        scope = self._interface.scope
        requested = scope.chosen(sizes)
        chosen = self._at(tuple(requested.values())) if sizes else self._example
        return chosen, tuple(f"{n}={requested[n]} of {s.low}..{s.high}" for n, s in scope.symbols.items())

    # --- calling -------------------------------------------------------------------------------------------------

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model once: takes what the model takes and returns what it returns, in fresh memory.

        An input that was positional in `example_inputs` may be passed by position or by name; one that was a keyword
        there is passed by name. All inputs are required. A call with positional tensors alone is the fastest.

        Raises:
            ShapeError: the arguments differ from what it was compiled for (number, names, structure, types, shapes),
                or the state is missing.
            ExecutionError: an index out of range, an integer division by zero.
        """

    @abstractmethod
    def new_state(self) -> State:
        """Create a state with the initial values of the model's buffers, for ``model(..., state=...)``.

        It is empty for a model that writes to no buffer; such a model is called without one. Programs whose
        buffers have the same names and types take each other's states.
        """

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self, self._HOW_TO_KEEP)

    # --- identity ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def digest(self) -> str:
        """Hash of nodes, of what torch runs and of weights; the same on every machine."""

    @property
    @abstractmethod
    def run_digest(self) -> str:
        """Hash of everything that decides what runs. Where sizes differ from call to call: for those of the example."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the model to `path` (suffix ``.engine`` by custom): one safetensors file.

        Raises:
            ProgramError: the file cannot be written, or cannot hold this model.
        """

    # --- reading it ----------------------------------------------------------------------------------------------

    @abstractmethod
    def report(self, **sizes: int) -> Report:
        """Return a report: what passes changed, kernels, memory, arithmetic and times. Runs nothing.

        Args:
            **sizes: the sizes to report for, where they differ from call to call; by default those of the example.

        Raises:
            ConfigError: a size that the model does not have, or that is no whole number.
            ShapeError: a size out of its range.
        """

    @abstractmethod
    def profile(self, *args: Any, runs: int = 30, roofs: bool = True, **kwargs: Any) -> Profile:
        """Measure the time of each launch.

        Args:
            *args: as for a call.
            **kwargs: as for a call.
            runs: how many runs to measure, one or more; the run with the median time is shown.
            roofs: measure the machine's roofs too, for the share that each launch reaches (0.3 s; about 1 s on a busy
                machine).

        Raises:
            ConfigError: `runs` or `roofs` has another value, or the target has no clock of its own, such as the
                interpreter, whose times `trace` has.
        """

    @abstractmethod
    def tune(self, *args: Any, rounds: int = 9, folder: str | Path | None = None, **kwargs: Any) -> Tuning:
        """Measure which configuration of each kernel is the fastest for the sizes of this call, and store the choices.

        Programs that are compiled or loaded afterwards use them; this one stays as it is. Results of another
        configuration may differ in rounding.

        Args:
            *args: as for a call.
            rounds: measurements of each configuration, one or more. With fewer than nine, choices are uncertain.
            folder: folder of the table; None: ``enginebench/triton`` in the user's cache, which programs read.
            **kwargs: as for a call.

        Returns:
            The choices, with their gains, and the file that has them.

        Raises:
            ConfigError: another value of `rounds` or `folder`; the target has no configurations to choose from; or
                torch runs a part of the model.
            ShapeError, ExecutionError: as a call.
        """

    @abstractmethod
    def trace(self, *args: Any, keep: Iterable[int | str] | None = None, **kwargs: Any) -> Trace:
        """Run once, node by node, and record statistics of every input and output.

        Args:
            *args: as for a call.
            **kwargs: as for a call.
            keep: what arrays are kept of, in any order: names of values or modules, in the program or in torch's
                exported graph, patterns of them such as ``"encoder.layer.0.*"``, and positions of nodes. None: of none.

        Raises:
            ConfigError: `keep` is no iterable of text and whole numbers, or has a name or position that nothing has.
        """
