"""The smallest part of a model that still fails: delta debugging of its exported graph.

Any calls of the graph may be left: what they read besides is given, as it was recorded in a run of the whole model. So
cutting inputs or outputs, dropping nodes and putting values in place of a subgraph are one thing, a choice of calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import targets
from engine.config import Config, require_config
from engine.errors import ComparisonError, ConfigError
from engine.inspect.bisect import FAILURES, working_folder
from engine.inspect.search import count_repeats, find_first, minimise
from engine.inspect.trials import LIMIT_S, Outcome, Trials
from engine.tree import split_arguments

_TASKS = "engine.inspect.reduced"
_FIRST_RUNS = 4
FORMS = ("ones", "whole", "seed", "rounded")
"""How a given tensor may be made, simplest first (`engine.inspect.reduced.remake`)."""


@dataclass(frozen=True)
class Reduced:
    """Calls of an exported graph that are left, and how the tensors that they read are made.

    Attributes:
        units: each a call, and those that take one of its results.
        sizes: a size of given tensors -> the one that it is cut to.
        forms: name of a given tensor -> one of `FORMS`; others are as recorded.
    """

    units: tuple[tuple[str, ...], ...]
    sizes: Mapping[int, int]
    forms: Mapping[str, str]

    def to_json(self) -> list[Any]:
        """As `engine.inspect.reduced.Reduction` takes it."""
        return [[name for unit in self.units for name in unit], sorted(self.sizes.items()), dict(self.forms)]


@dataclass(frozen=True)
class Minified:
    """The result of `minify`.

    Attributes:
        failure: what is left fails so, in words.
        case: what is left.
        passing: what is nearest to it and does not fail; None if nothing that was tried ends without a failure.
        calls: number of calls that are left, and of those of the model.
        trials, seconds: what it took.
    """

    failure: str
    case: Reduced
    passing: Reduced | None
    calls: tuple[int, int]
    trials: int
    seconds: float

    def __str__(self) -> str:
        left, of = self.calls
        return f"{self.failure}\n{left} of {of} calls are left, {self.trials} trials, {self.seconds:.0f} s."


def minify(
    model: Any,
    inputs: Any,
    fails: str = "wrong",
    *,
    candidate: Config | None = None,
    subject: str = "engine",
    options: Mapping[str, Any] | None = None,
    limit: float = LIMIT_S,
    folder: str | Path | None = None,
    setup: Sequence[str] = (),
    observe: Callable[[int], None] | None = None,
) -> Minified:
    """Find the smallest part of a model that still fails, of the smallest sizes and the simplest values.

    Args:
        model: as for `bisect`.
        inputs: as for `bisect`.
        fails: as for `bisect`, without an `Oracle`.
        candidate: the switches with which it fails; None is ``Config()``.
        subject: ``engine``; or ``module:function`` of another way to run it, which is called in the process of a trial
            with a module, its inputs and `options`, and returns the results.
        options: as said.
        limit: as for `bisect`.
        folder: as for `bisect`.
        setup: as for `bisect`.
        observe: as for `bisect`.

    Raises:
        ComparisonError: the model does not fail so.
        ConfigError: an argument has another value, or the folder has trials of another case.
        EngineError: as `compile`.
    """
    from engine import exporter
    from engine.inspect.observe import save_case

    if fails not in FAILURES:
        raise ConfigError(f"minify: fails: expected {', '.join(FAILURES)}, got {fails!r}")
    config = targets.resolve(require_config(candidate))
    started = time.perf_counter()
    args, kwargs = split_arguments(inputs)
    exported = exporter.export_with_torch(model, inputs)
    setup = (_TASKS, *setup)
    with working_folder(folder) as work:
        save_case(work, exported.program, (tuple(args), dict(kwargs)))
        with Trials(work, setup, limit, observe) as trials:
            asked = {"kind": fails, "subject": subject, "options": options or config.to_dict()}
            search = _Search(trials, asked)
            found = search.run()
            with Trials(work, setup, limit) as fresh:  # processes that know nothing of the search
                again = _Search(fresh, asked | {"number": -1})
                if not again.has_failed(found, search.signature):
                    raise ComparisonError("minify: the smallest case does not fail in a new process")
            whole = sum(map(len, search.units))
            calls = sum(map(len, found.units)), whole
            seconds = time.perf_counter() - started
            return Minified(search.failure, found, search.passing, calls, trials.count, seconds)


class _Search:
    """One search, whose trials are asked `asked`."""

    def __init__(self, trials: Trials, asked: Mapping[str, Any]) -> None:
        self._trials, self._asked = trials, {"number": 0, **asked}
        self._repeats = 1
        self.units: tuple[tuple[str, ...], ...] = ()
        self.failure = ""
        self.signature: tuple[str, str] = ("", "")
        self.passing: Reduced | None = None

    def run(self) -> Reduced:
        """The smallest case. ComparisonError if the whole does not fail."""
        self.units = tuple(map(tuple, self._require("record")["units"]))
        whole = Reduced(self.units, {}, {})
        self._begin(whole)
        case = self._leave_out(whole)
        case = self._cut_sizes(case)
        case = self._simplify(case)
        self.failure = _describe(self._check(case, 0))
        return case

    def _begin(self, whole: Reduced) -> None:
        outcome, kind = self._check(whole, 0), self._asked["kind"]
        failed = outcome.answer.get("failed", False) if kind in ("wrong", "nan") else outcome.kind == kind
        if not failed:
            raise ComparisonError(f"minify: it does not fail: expected {kind}: {_describe(outcome)}")
        self.signature = outcome.signature
        if kind != "hang":
            runs = [self._is_same(self._check(whole, number), self.signature) for number in range(_FIRST_RUNS)]
            self._repeats = count_repeats(max(1, sum(runs)), len(runs))

    def _leave_out(self, whole: Reduced) -> Reduced:
        """First all calls behind the one that fails, then all before what it needs, then single ones."""
        units = whole.units

        def fails(kept: Sequence[tuple[str, ...]]) -> bool:
            return bool(kept) and self.has_failed(replace(whole, units=tuple(kept)), self.signature)

        end = find_first(len(units), lambda count: fails(units[:count]))
        size = 1
        while size < end and not fails(units[end - size : end]):
            size *= 2
        if size > 1:
            half = size // 2
            size = half + find_first(min(size, end) - half, lambda more: fails(units[end - half - more : end]))
        return replace(whole, units=tuple(minimise(units[max(0, end - size) : end], fails)))

    def _cut_sizes(self, case: Reduced) -> Reduced:
        for size in sorted({size for shape in self._describe(case).values() for size in shape}, reverse=True):
            for smaller in (one for one in (1, 2, 3, 4, 5, 8, 16, 32, 64, 128) if one < size):
                tried = replace(case, sizes={**case.sizes, size: smaller})
                if self.has_failed(tried, self.signature):
                    case = tried
                    break
        return case

    def _simplify(self, case: Reduced) -> Reduced:
        for name in self._describe(case):
            for form in FORMS:
                tried = replace(case, forms={**case.forms, name: form})
                if self.has_failed(tried, self.signature):
                    case = tried
                    break
        return case

    # --- asking -------------------------------------------------------------------------------------------------------

    def has_failed(self, case: Reduced, signature: tuple[str, str]) -> bool:
        """True if the case fails as the whole does."""
        outcomes = (self._check(case, number) for number in range(self._repeats))
        if any(self._is_same(outcome, signature) for outcome in outcomes):
            return True
        if self._check(case, 0).kind == "done":
            self.passing = case
        return False

    @staticmethod
    def _is_same(outcome: Outcome, signature: tuple[str, str]) -> bool:
        return outcome.signature == signature and outcome.answer.get("failed", True)

    def _check(self, case: Reduced, number: int) -> Outcome:
        asked = {**self._asked, "number": self._asked["number"] or number}
        return self._trials.run(f"{_TASKS}:check", reduction=case.to_json(), **asked)

    def _describe(self, case: Reduced) -> dict[str, list[int]]:
        """The shapes of the given tensors, by name."""
        shapes: dict[str, list[int]] = self._require("describe", reduction=case.to_json())["shapes"]
        return shapes

    def _require(self, task: str, **given: Any) -> dict[str, Any]:
        outcome = self._trials.run(f"{_TASKS}:{task}", **given)
        if outcome.kind != "done":
            raise ComparisonError(f"minify: {outcome}")
        return outcome.answer


def _describe(outcome: Outcome) -> str:
    if outcome.kind != "done":
        return str(outcome)
    return str(outcome.answer["text"]) or "it ends as it should"
