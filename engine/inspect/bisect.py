"""Which switch makes a model fail: a pass, a rewrite of it, a kernel, an instruction set, threads, a layer's precision.

Every pass, kernel and plan computes the same function, so that all switches may be turned in any combination. A fault
of the *graph* is one that the NumPy definitions of the ops show, too; the first pass after which they do is to blame.
Any other fault is one of how it *runs*.
"""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from engine import passes, targets
from engine.config import Config, is_path, require_config
from engine.errors import ComparisonError, ConfigError
from engine.graph import MARK, Rewrite
from engine.inspect.search import count_repeats, find_first, minimise
from engine.inspect.sides import list_changes
from engine.inspect.trials import LIMIT_S, Outcome, Trials
from engine.switches import kernel_variants, load, variants_kind
from engine.tree import split_arguments

FAILURES = ("wrong", "nan", "error", "crash", "hang")
"""What `bisect` looks for by itself."""
_TASKS = "engine.inspect.observe"
_TIMES = 4.0
"""An error this many times that of the same arithmetic without passes is a failure's, whatever the tolerance."""
_LEAST = 1e-12
_FIRST_RUNS = 4
"""Runs that show whether it always fails."""
_MOST_CAUSES = 4
_PRECISION = "(precision)"
"""The step between the common passes and those of the target."""


@dataclass(frozen=True)
class Cause:
    """A switch that has to be as it is for the failure.

    Attributes:
        kind: ``export``, ``pass``, ``rewrite``, ``precision``, ``layer``, ``kernel``, or the field of `Config`.
        name: such as ``fuse_epilogue#add_6`` or ``linear=packed``.
        module: where the rewrite is.
        without: the fields of `Config` that turn it off.
    """

    kind: str
    name: str
    module: str = ""
    without: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" in {self.module}" if self.module else "")


@dataclass(frozen=True)
class Found:
    """One reason for the failure.

    Attributes:
        causes: what is to blame: turning off any one of them mends it. Several fail only together.
        reached: passes or rewrites that are right, and make what the failure shows at.
    """

    causes: tuple[Cause, ...]
    reached: tuple[Cause, ...] = ()

    def __str__(self) -> str:
        text = " and ".join(map(str, self.causes)) + (", which fail only together" if len(self.causes) > 1 else "")
        return text + (f"; it needs {', '.join(map(str, self.reached))}" if self.reached else "")


@dataclass(frozen=True)
class Bisection:
    """The result of `bisect`.

    Attributes:
        failure: what failed, in words.
        rate: share of runs that fail.
        found: the reasons, each independent of the others.
        config: the candidate without any of them.
        is_mended: True if that was run and did not fail.
        trials, seconds: what it took.
    """

    failure: str
    rate: float
    found: tuple[Found, ...]
    config: Config
    is_mended: bool
    trials: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values."""
        return {**asdict(self), "config": self.config.to_dict()}

    def __str__(self) -> str:
        lines = [self.failure]
        lines += [f"It fails in {self.rate:.0%} of runs."] if self.rate < 1 else []
        lines += [f"To blame: {one}." for one in self.found] or ["No switch is to blame."]
        can_turn = any(one.without for reason in self.found for one in reason.causes)
        changed = ", ".join(f"{name}={value!r}" for name, value in list_changes(self.config).items())
        lines += [f"Config({changed}) does not fail."] if self.is_mended else ["It fails without them, too."] * can_turn
        return "\n".join([*lines, f"{self.trials} trials, {self.seconds:.0f} s."])


class Oracle(Protocol):
    """What says whether a program with certain switches fails, in a way that `bisect` does not know, such as slowly.

    Attributes:
        label: the failure in words.
    """

    label: str

    def fails(self, config: Config, trials: Trials) -> bool | None:
        """True if the failure is there, False if not, None if that cannot be told. `trials` runs tasks on the case."""


def bisect(
    model: Any,
    inputs: Any,
    fails: str | Oracle = "wrong",
    *,
    reference: str = "eager64",
    candidate: Config | None = None,
    tolerance: float | None = None,
    limit: float = LIMIT_S,
    folder: str | Path | None = None,
    setup: Sequence[str] = (),
    observe: Callable[[int], None] | None = None,
) -> Bisection:
    """Find the switches that make a model fail. Each trial runs in a process of its own.

    Args:
        model: an `nn.Module` in eval mode or an `ExportedProgram`.
        inputs: positional inputs, or ``(positional, keywords)``.
        fails: ``"wrong"``: a node that `diff` accuses; ``"nan"``: a NaN or an infinity where the reference has none;
            ``"error"``: an exception; ``"crash"``: the end of the process; ``"hang"``; or an `Oracle`.
        reference: ``"eager64"``, ``"eager"`` or ``"interpreter"``, as of `diff`.
        candidate: the switches with which it fails; None is ``Config()``.
        tolerance: relative error, over the largest magnitude of an output, from which a result is wrong; None: the node
            that `diff` accuses is looked at.
        limit: seconds after which a trial hangs.
        folder: where trials are kept, so that a search which was interrupted goes on; None: nowhere.
        setup: modules or Python files to import in the process of trials, such as those that register ops.
        observe: called after each trial with the number of trials so far.

    Raises:
        ComparisonError: the model does not fail so.
        ConfigError: an argument has another value, or the folder has trials of another case.
        EngineError: as `compile`.
    """
    from engine import exporter
    from engine.inspect.observe import save_case

    if isinstance(fails, str) and fails not in FAILURES:
        raise ConfigError(f"bisect: fails: expected {', '.join(FAILURES)} or an Oracle, got {fails!r}")
    config = targets.resolve(require_config(candidate))
    started = time.perf_counter()
    args, kwargs = split_arguments(inputs)
    exported = exporter.export_with_torch(model, inputs)
    with working_folder(folder) as work:
        save_case(work, exported.program, (tuple(args), dict(kwargs)))
        with Trials(work, setup, limit, observe) as trials:
            if isinstance(fails, str):
                search: _Search = _Builtin(trials, config, fails, reference, tolerance)
            else:
                search = _Told(trials, config, fails)
            rate = search.begin()
            found, mended, now = list[Found](), False, config
            while not mended and len(found) < _MOST_CAUSES:
                one = search.find(now)
                again = [other for other in found if _passes_of(other) & _passes_of(one)]
                if again:  # the pass makes it fail in more than one place
                    found = [other for other in found if other not in again]
                    name = min(_passes_of(again[0]) & _passes_of(one))
                    one = Found((_pass(name),))
                found.append(one)
                following = config
                for reason in found:
                    following = merge(following, reason.causes[0].without)
                if following == now:  # nothing turns it off
                    break
                now, mended = following, search.is_mended(following)
            return Bisection(
                search.failure, rate, tuple(found), now, mended, trials.count, time.perf_counter() - started
            )


def _pass(name: str) -> Cause:
    return Cause("pass", name, without={"disable": (name,)})


def _passes_of(found: Found) -> set[str]:
    return {cause.name.partition(MARK)[0] for cause in found.causes if cause.kind in ("rewrite", "pass")}


@contextmanager
def working_folder(folder: str | Path | None) -> Iterator[Path]:
    """A folder for trials: the one that is given, or one that is gone at the end."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def merge(config: Config, without: Mapping[str, Any]) -> Config:
    """`config` with the fields `without`; lists are added to."""
    changed = dict(without)
    if "disable" in changed:
        changed["disable"] = (*config.disable, *changed["disable"])
    if "variant" in changed:
        changed["variant"] = {**config.variant, **changed["variant"]}
    if changed.get("recipe") and isinstance(config.recipe, tuple):  # as Config stores it
        changed["recipe"] = (*changed["recipe"], *config.recipe)  # the first pattern that matches counts
    return replace(config, **changed)


# --- the search -------------------------------------------------------------------------------------------------------


class _Search(ABC):
    """How to search for one kind of failure."""

    failure = ""

    def __init__(self, trials: Trials, config: Config) -> None:
        self._trials, self._config = trials, config

    @abstractmethod
    def begin(self) -> float:
        """See that it fails, and how often. ComparisonError if it does not."""

    @abstractmethod
    def fails(self, config: Config) -> bool:
        """True if this failure is there with these switches."""

    def is_mended(self, config: Config) -> bool:
        """True if nothing fails with these switches. If something still does, it is what is looked for now."""
        return not self.fails(config)

    @abstractmethod
    def find(self, config: Config) -> Found:
        """A reason for the failure that `config` has."""

    # --- what both kinds share ---------------------------------------------------------------------------------------

    def _find_run(self, config: Config, others: Sequence[Cause] = ()) -> list[Cause] | None:
        """The switches of how a program runs, and `others`, that fail together while all the rest are off.

        None if it fails with all of them off.
        """
        causes = [*others, *self._list_run(config)]

        def fails(on: Sequence[Cause]) -> bool:
            return self.fails(self._leave_out(config, [one for one in causes if one not in on]))

        return None if fails([]) else minimise(causes, fails)

    @staticmethod
    def _leave_out(config: Config, causes: Sequence[Cause]) -> Config:
        for one in causes:
            config = merge(config, one.without)
        return config

    def _list_run(self, config: Config) -> list[Cause]:
        """The switches of how a program runs that are not at their simplest."""
        simplest = {"threads": 1, "isa": "generic", "planner": "no_reuse", "dispatch": "per_node", "outputs": "fresh"}
        target = targets.get(config.target)
        if config.target != "cpu":
            simplest = {"planner": "no_reuse"}
        best = target.available("isa")[-1] if config.target == "cpu" else ""
        found = [
            Cause(name, str(getattr(config, name) or best), without={name: value})
            for name, value in simplest.items()
            if getattr(config, name) != value
        ]
        variants = kernel_variants(variants_kind(config.target))
        for op in self._ops:
            names = variants.get(op, ())
            if "reference" in names and len(names) > 1 and config.variant.get(op) != "reference":
                chosen = config.variant.get(op) or names[0]
                found.append(Cause("kernel", f"{op}={chosen}", without={"variant": {op: "reference"}}))
        return found

    @cached_property
    def _ops(self) -> list[str]:
        """The ops of the program whose kernels may be to blame."""
        outcome = self._trials.run(f"{_TASKS}:list_ops", config=self._config.to_dict())
        return list(outcome.answer.get("ops", ()))


class _Told(_Search):
    """A failure that an `Oracle` knows: of all switches those that fail together."""

    def __init__(self, trials: Trials, config: Config, oracle: Oracle) -> None:
        super().__init__(trials, config)
        self._oracle, self.failure = oracle, oracle.label
        self._known: dict[Config, bool] = {}

    def begin(self) -> float:
        if not self.fails(self._config):
            raise _not_failing(self.failure)
        return 1.0

    def fails(self, config: Config) -> bool:
        if config not in self._known:
            self._known[config] = self._oracle.fails(config, self._trials) is True
        return self._known[config]

    def find(self, config: Config) -> Found:
        common, late = passes.stages(config)
        names = dict.fromkeys(one.name for one in (*common, *late))
        causes = self._find_run(config, list(map(_pass, names)))
        if causes is None:
            return Found((Cause("export", "(before any pass)"),))
        return Found(tuple(causes))


class _Builtin(_Search):
    """A failure that a trial sees by itself."""

    def __init__(self, trials: Trials, config: Config, kind: str, reference: str, tolerance: float | None) -> None:
        super().__init__(trials, config)
        self._kind, self._reference, self._tolerance = kind, reference, tolerance
        self._watch: str | None = None
        self._limits: list[float | None] = []
        self._asks_diff = False
        """True where no size of error tells the failure from what rounding weights does: each trial is a `diff`."""
        self._signature: tuple[str, str] = ("", "")
        self._repeats = 1
        self._steps = _list_steps(config)

    def begin(self) -> float:
        config = self._config
        if self._kind in ("wrong", "nan"):
            self.failure = self._begin_values(config)
        else:
            outcome = self._observe(config, 0)
            if outcome.kind != self._kind:
                raise _not_failing(f"expected {self._kind}: {_describe(outcome)}")
            self._signature, self.failure = outcome.signature, f"It fails: {outcome}."
        if self._asks_diff or self._kind == "hang":  # a run that hangs takes its time
            return 1.0
        failed = [self._has_failed(self._observe(config, number)) for number in range(_FIRST_RUNS)]
        if not any(failed):
            raise ComparisonError(f"bisect: it failed once, and not in {_FIRST_RUNS} further runs: {self.failure}")
        self._repeats = count_repeats(sum(failed), len(failed))
        return sum(failed) / len(failed)

    def _begin_values(self, config: Config) -> str:
        """Find what is wrong, what is expected, and how large an error has to be. Returns the failure in words."""
        said = "Results have a NaN or an infinity where those of the reference are finite."
        if self._kind == "wrong" and self._tolerance is None:
            first = self._require(
                f"{_TASKS}:locate", config=config.to_dict(), reference=self._reference, definitions=False
            )["first"]
            if first is None:
                raise _not_failing("diff accuses no node; give a tolerance to be stricter")
            self._watch, said = first["name"], f"Wrong: {first['text']}."
        self._require(f"{_TASKS}:expect", reference=self._reference, watch=self._watch)
        outcome = self._observe(config, 0)
        if outcome.kind != "done":
            raise _not_failing(_describe(outcome))
        seen = outcome.answer
        if self._kind == "nan":
            if not seen["is_bad"]:
                raise ComparisonError(
                    "bisect: it does not fail: results are finite wherever those of the reference are"
                )
            return said
        if self._tolerance is not None:
            self._limits = [self._tolerance] * len(seen["errors"])
            largest = max((one for one in seen["errors"] if one is not None), default=0.0)
            if largest <= self._tolerance:
                raise ComparisonError(
                    f"bisect: it does not fail: its error is {largest:.1e}, not above {self._tolerance}"
                )
            return f"Wrong: an error of {largest:.1e} of the largest magnitude of an output."
        # The same precision without passes and kernels has the error that is to be expected.
        simple = self._observe(self._prefix(config, 0, precision=True), 0, definitions=True)
        pairs = zip(seen["errors"], simple.answer.get("errors", ()), strict=False)
        known = [None if e is None or f is None else (e, max(f, _LEAST)) for e, f in pairs]
        self._limits = [(e * f) ** 0.5 if one and e > _TIMES * f else None for one in known for e, f in [one or (0, 0)]]
        self._asks_diff = all(one is None for one in self._limits)
        return said

    def is_mended(self, config: Config) -> bool:
        """As `_Search.is_mended`. A node that diff accuses besides is a failure, too."""
        if self.fails(config):
            return False
        if self._watch is None:
            return True
        try:
            self._begin_values(config)
        except ComparisonError:
            return True
        return False

    def _require(self, task: str, **given: Any) -> dict[str, Any]:
        outcome = self._trials.run(task, **given)
        if outcome.kind != "done":
            raise ComparisonError(f"bisect: it does not fail so: {outcome}")
        return outcome.answer

    def _observe(self, config: Config, number: int, *, definitions: bool = False) -> Outcome:
        given = {"config": config.to_dict(), "watch": self._watch, "number": number, "definitions": definitions}
        return self._trials.run(f"{_TASKS}:observe", **given)

    def _has_failed(self, outcome: Outcome) -> bool:
        if self._kind not in ("wrong", "nan"):
            return outcome.signature == self._signature
        if outcome.kind != "done":
            return False  # another failure
        if self._kind == "nan":
            return bool(outcome.answer["is_bad"])
        pairs = zip(outcome.answer["errors"], self._limits, strict=False)
        return any(limit is not None and error >= limit for error, limit in pairs if error is not None)

    def fails(self, config: Config, *, definitions: bool = False) -> bool:
        if self._asks_diff:
            given = {"config": config.to_dict(), "reference": self._reference, "definitions": definitions}
            outcome = self._trials.run(f"{_TASKS}:locate", **given)
            return outcome.kind == "done" and outcome.answer["first"] is not None
        return any(
            self._has_failed(self._observe(config, number, definitions=definitions)) for number in range(self._repeats)
        )

    # --- finding ------------------------------------------------------------------------------------------------------

    def find(self, config: Config) -> Found:
        steps = self._steps = _list_steps(config)
        causes = self._find_run(config)
        if causes is None:  # with the simplest kernels, too
            return self._find_graph(config, definitions=self.fails(config, definitions=True))
        reached: list[Cause] = []
        if not self.fails(self._prefix(config, 0)):
            number = find_first(len(steps), lambda count: self.fails(self._prefix(config, count)))
            reached = self._find_rewrite(config, number, definitions=False)[:1]
        return Found(tuple(causes), tuple(reached))

    def _find_graph(self, config: Config, *, definitions: bool) -> Found:
        """The first step after which the graph fails, and earlier ones that it fails together with."""

        def fails(count: int) -> bool:
            return self.fails(self._prefix(config, count), definitions=definitions)

        if fails(0):
            return Found((Cause("export", "(before any pass)"),))
        number = find_first(len(self._steps), fails)
        if self._steps[number - 1] == _PRECISION:
            return Found(self._find_layers(config, number, definitions=definitions))
        causes = self._find_rewrite(config, number, definitions=definitions)
        partners, reached = self._find_partners(config, number, causes, definitions=definitions)
        return Found((*causes, *partners), reached)

    def _find_rewrite(self, config: Config, number: int, *, definitions: bool) -> list[Cause]:
        """The rewrites of step `number` without which the graph up to it does not fail."""
        prefix = self._prefix(config, number)
        step = self._steps[number - 1]
        if step == _PRECISION:
            return [Cause("precision", str(config.precision or "recipe"), without={"precision": None, "recipe": None})]
        name = _name_of(step)
        made = [one for one in self._list_rewrites(prefix, definitions=definitions) if one.name == name]

        def fails(on: Sequence[Rewrite]) -> bool:
            off = tuple(str(one) for one in made if one not in on)
            return self.fails(merge(prefix, {"disable": off}), definitions=definitions)

        if not made or fails([]):  # such as nodes that it removes
            return [_pass(name)]
        return [Cause("rewrite", str(one), one.module, {"disable": (str(one),)}) for one in minimise(made, fails)]

    def _find_partners(
        self, config: Config, number: int, causes: Sequence[Cause], *, definitions: bool
    ) -> tuple[tuple[Cause, ...], tuple[Cause, ...]]:
        """Earlier passes without which it does not fail: those without which rewrites of `causes` are made all the
        same, and those without which none is.
        """
        prefix = self._prefix(config, number)
        blamed = {one.name for one in causes}
        owner = causes[0].name.partition(MARK)[0]
        earlier = [name for name in dict.fromkeys(self._steps[: number - 1]) if name not in (_PRECISION, owner)]

        def without(names: Sequence[str]) -> Config:
            return replace(prefix, pipeline=tuple(one for one in prefix.pipeline or () if one not in names))

        needed = minimise(
            earlier,
            lambda on: self.fails(without([one for one in earlier if one not in on]), definitions=definitions),
        )
        partners, reached = list[Cause](), list[Cause]()
        for name in needed:
            if not self.fails(without([name]), definitions=definitions):
                made = {str(one) for one in self._list_rewrites(without([name]), definitions=definitions)}
                (partners if blamed & made else reached).append(_pass(_name_of(name)))
        return tuple(partners), tuple(reached)

    def _find_layers(self, config: Config, number: int, *, definitions: bool) -> tuple[Cause, ...]:
        """The layers whose precision makes it fail; all of them if no single ones do."""
        prefix = self._prefix(config, number)
        layers = self._require(f"{_TASKS}:list_layers")["layers"]

        def fails(on: Sequence[str]) -> bool:
            off = tuple((one, "fp32") for one in layers if one not in on)
            return self.fails(merge(prefix, {"recipe": off}) if off else prefix, definitions=definitions)

        if not layers or fails([]):
            return (Cause("precision", str(config.precision), without={"precision": None, "recipe": None}),)
        return tuple(
            Cause("layer", f"{one}={config.precision}", "", {"recipe": ((one, "fp32"),)})
            for one in minimise(layers, fails)
        )

    def _list_rewrites(self, config: Config, *, definitions: bool) -> list[Rewrite]:
        outcome = self._observe(config, 0, definitions=definitions)
        if outcome.kind != "done":  # it fails when it runs, or in a pass
            outcome = self._trials.run(f"{_TASKS}:list_rewrites", config=config.to_dict())
        return [Rewrite(*one) for one in outcome.answer.get("rewrites", ())]

    def _prefix(self, config: Config, count: int, *, precision: bool = False) -> Config:
        """`config` with the first `count` steps alone."""
        kept = self._steps[:count]
        changed: dict[str, Any] = {"pipeline": tuple(one for one in kept if one != _PRECISION), "passes": ()}
        names = {_name_of(one) for one in kept}
        changed["disable"] = tuple(one for one in config.disable if MARK in one and one.partition(MARK)[0] in names)
        if _PRECISION in self._steps and _PRECISION not in kept and not precision:
            changed |= {"precision": None, "recipe": None}
        return replace(config, **changed)


def _name_of(step: str) -> str:
    """The name of a pass that a step gives by its name or path."""
    return str(load("pass", step).name) if is_path(step) else step


def _list_steps(config: Config) -> list[str]:
    """Names or paths of the passes of `config` in order, and where weights get their precision."""
    common, late = passes.stages(config)
    given = (*config.passes, *(config.pipeline or ()))
    paths = {_name_of(path): path for path in given if is_path(path)}
    middle = [_PRECISION] if config.precision not in (None, "fp32") or config.recipe is not None else []
    return [
        *(paths.get(one.name, one.name) for one in common),
        *middle,
        *(paths.get(one.name, one.name) for one in late),
    ]


def _not_failing(reason: str) -> ComparisonError:
    return ComparisonError(f"bisect: it does not fail: {reason}")


def _describe(outcome: Outcome) -> str:
    return "it ends as it should" if outcome.kind == "done" else str(outcome)
