"""The smallest part of a model that still fails: delta debugging of its exported graph.

Any calls of the graph may be left: what they read besides is given, as it was recorded in a run of the whole model. So
cutting inputs or outputs, dropping nodes and putting values in place of a subgraph are one thing, a choice of calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engine import targets
from engine.config import Config, require_config
from engine.errors import ComparisonError, ConfigError
from engine.inspect.bisect import FAILURES, working_folder
from engine.inspect.capsule import PASSING, SCRIPT, is_failure, pack, run_python
from engine.inspect.command import Command
from engine.inspect.search import count_repeats, find_first, minimise
from engine.inspect.sides import list_changes
from engine.inspect.trials import LIMIT_S, Outcome, Trials
from engine.tree import split_arguments

_TASKS = "engine.inspect.reduced"
FORMS = ("ones", "whole", "seed", "rounded")
"""How a given tensor may be made, simplest first: of ones; of whole numbers from -3 to 3; of normal numbers of a seed,
about as large as those that were recorded; and of these, rounded to two digits. Otherwise it is as recorded."""
_FIRST_RUNS = 4
_CLEAR = 4.0
"""An error this many times its bound stays a failure's if parts of the model are left out: less may be rounding."""
_CASE, _NEXT = "smallest", "passing"
"""Folders of the case, and of the one that does not fail."""


@dataclass(frozen=True)
class Subject:
    """What a model fails in.

    Attributes:
        label: as tables have it.
        script: lines of Python that make ``results``, a sequence of tensors or arrays, of ``model`` and ``inputs``.
        task: ``module:function``, which is called in the process of a trial with a module, its inputs and `options`,
            and returns the results; "" for the engine.
        options: what the task is told; fields of a Config for the engine.
    """

    label: str
    script: str
    task: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


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
        script: of the case, in plain torch: fails in a new process.
        calls: number of calls that are left, and of those of the model.
        trials, seconds: what it took.
    """

    failure: str
    case: Reduced
    passing: Reduced | None
    script: str
    calls: tuple[int, int]
    trials: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values."""
        return asdict(self)

    def __str__(self) -> str:
        left, of = self.calls
        are = "is" if left == 1 else "are"
        return f"{self.failure}\n{left} of {of} calls {are} left, {self.trials} trials, {self.seconds:.0f} s."


def minify(
    model: Any,
    inputs: Any,
    fails: str | Command = "wrong",
    *,
    candidate: Config | Subject | None = None,
    limit: float = LIMIT_S,
    capsule: str | Path | None = None,
    folder: str | Path | None = None,
    setup: Sequence[str] = (),
    observe: Callable[[int], None] | None = None,
) -> Minified:
    """Find the smallest part of a model that still fails, of the smallest sizes and the simplest values.

    Args:
        model: as for `bisect`.
        inputs: as for `bisect`.
        fails: as for `bisect`; or a `Command` (`engine.inspect.command`).
        candidate: the switches with which it fails; None is ``Config()``; or a `Subject`, another way to run it.
        limit: as for `bisect`.
        capsule: file to write, which `replay` runs (`engine.inspect.capsule`). The script lies beside it, with the
            suffix ``.repro.py``.
        folder: as for `bisect`.
        setup: as for `bisect`.
        observe: as for `bisect`.

    Raises:
        ComparisonError: the model does not fail so, or what is left does not when its script runs alone.
        ConfigError: an argument has another value, or the folder has trials of another case.
        EngineError: as `compile`.
    """
    from engine import exporter
    from engine.inspect.observe import save_case

    if isinstance(fails, str) and fails not in FAILURES:
        raise ConfigError(f"minify: fails: expected {', '.join(FAILURES)} or a Command, got {fails!r}")
    subject = candidate if isinstance(candidate, Subject) else _make_subject(require_config(candidate))
    started = time.perf_counter()
    args, kwargs = split_arguments(inputs)
    exported = exporter.export_with_torch(model, inputs)
    with working_folder(folder) as work:
        save_case(work, exported.program, (tuple(args), dict(kwargs)))
        with Trials(work, (_TASKS, *setup), limit, observe) as trials:
            search = _Search(trials, subject, fails, work)
            found = search.run()
            made, passing = search.write(found, limit)
        calls = sum(map(len, found.units)), sum(map(len, search.units))
        seconds = time.perf_counter() - started
        result = Minified(search.failure, found, passing, made["script"], calls, trials.count, seconds)
        if capsule is not None:
            _pack(Path(capsule), work / _CASE, result, made, subject, fails)
    return result


def _make_subject(config: Config) -> Subject:
    """The engine with these switches."""
    config = targets.resolve(config)
    if config.recipe is not None:
        raise ConfigError("minify: candidate: a recipe names layers, and a part of the model has none; give precision=")
    changed = ", ".join(f"{name}={value!r}" for name, value in list_changes(config).items())
    made = f"results = engine.compile(model, inputs, engine.Config({changed}))(*inputs)"
    return Subject("engine", f"import engine\n{made}", options=config.to_dict())


def _pack(
    path: Path, folder: Path, result: Minified, made: Mapping[str, Any], subject: Subject, fails: str | Command
) -> None:
    """Write the capsule and the script."""
    command = fails if isinstance(fails, Command) else None
    facts = {
        "kind": "command" if command else fails,
        "failure": result.failure,
        "subject": subject.label,
        "options": dict(subject.options),
        "command": command and {"line": command.line, "pattern": command.pattern},
        **{name: made[name] for name in ("limit", "inputs", "results")},
    }
    pack(path, folder, facts)
    path.with_suffix(".repro.py").write_text(result.script)


class _Search:
    """One search."""

    def __init__(self, trials: Trials, subject: Subject, fails: str | Command, folder: Path) -> None:
        self._trials, self._fails, self._folder = trials, fails, folder
        self._kind = fails if isinstance(fails, str) else "command"
        self._asked = {"kind": self._kind, "subject": asdict(subject)}
        self._repeats, self._least = 1, 0.0
        self._signature: tuple[str, str] = ("", "")
        self._passing: Reduced | None = None
        self.units: tuple[tuple[str, ...], ...] = ()
        self.failure = ""

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

    def write(self, case: Reduced, limit: float) -> tuple[dict[str, Any], Reduced | None]:
        """Write the case, and the passing one, and run both in new processes. What fails is none that passes.

        ComparisonError if the case does not fail.
        """
        asked = {**self._asked, "title": self.failure.partition("\n")[0]}
        made = self._require("write", reduction=case.to_json(), name=_CASE, **asked)
        path = self._folder / _CASE / SCRIPT
        if not self._is_failing(path, limit):
            raise ComparisonError(
                f"minify: the smallest case does not fail when its script runs alone: {made['script']}"
            )
        passing, found = self._passing, None
        if passing is not None:
            asked |= {"title": "It does not fail.", "limit": made["limit"]}
            outcome = self._trials.run(f"{_TASKS}:write", reduction=passing.to_json(), name=_NEXT, **asked)
            path = self._folder / _NEXT / SCRIPT
            if outcome.kind == "done" and not self._is_failing(path, limit):
                found = passing
                path.rename(self._folder / _CASE / PASSING)
        return made, found

    def _is_failing(self, path: Path, limit: float) -> bool:
        if isinstance(self._fails, Command):
            return self._fails.fails_script(path) is True
        return is_failure(run_python([str(path)], path.parent, limit), self._kind, self.failure)

    def _begin(self, whole: Reduced) -> None:
        outcome = self._check(whole, 0)
        failed = (
            outcome.kind == self._kind if self._kind in ("error", "crash", "hang") else outcome.answer.get("failed")
        )
        if not failed:
            raise ComparisonError(f"minify: it does not fail: expected {self._kind}: {_describe(outcome)}")
        self._signature = outcome.signature
        self._least = min(_CLEAR, outcome.answer.get("over_bound") or _CLEAR)
        if self._kind != "hang":
            runs = [self._is_same(self._check(whole, number)) for number in range(_FIRST_RUNS)]
            self._repeats = count_repeats(max(1, sum(runs)), len(runs))

    def _leave_out(self, whole: Reduced) -> Reduced:
        """First all calls behind the one that fails, then all before what it needs, then single ones."""
        units = whole.units

        def fails(kept: Sequence[tuple[str, ...]]) -> bool:
            return bool(kept) and self._has_failed(replace(whole, units=tuple(kept)))

        end = find_first(len(units), lambda count: fails(units[:count]))
        size = 1
        while size < end and not fails(units[end - size : end]):
            size *= 2
        if size > 1:
            half = size // 2
            size = half + find_first(min(size, end) - half, lambda more: fails(units[end - half - more : end]))
        return replace(whole, units=tuple(minimise(units[max(0, end - size) : end], fails)))

    def _cut_sizes(self, case: Reduced) -> Reduced:
        for size in sorted({size for shape in self._list_shapes(case).values() for size in shape}, reverse=True):
            for smaller in (one for one in (1, 2, 3, 4, 5, 8, 16, 32, 64, 128) if one < size):
                tried = replace(case, sizes={**case.sizes, size: smaller})
                if self._has_failed(tried):
                    case = tried
                    break
        return case

    def _simplify(self, case: Reduced) -> Reduced:
        for name in self._list_shapes(case):
            for form in FORMS:
                tried = replace(case, forms={**case.forms, name: form})
                if self._has_failed(tried):
                    case = tried
                    break
        return case

    # --- asking -------------------------------------------------------------------------------------------------------

    def _has_failed(self, case: Reduced) -> bool:
        """True if the case fails as the whole does."""
        if any(self._is_same(self._check(case, number)) for number in range(self._repeats)):
            return True
        if self._check(case, 0).kind == "done":
            self._passing = case
        return False

    def _is_same(self, outcome: Outcome) -> bool:
        answer, is_failed = outcome.answer, outcome.answer.get("failed", True)
        return (
            outcome.signature == self._signature and is_failed and (answer.get("over_bound") or _CLEAR) >= self._least
        )

    def _check(self, case: Reduced, number: int) -> Outcome:
        if not isinstance(self._fails, Command):
            return self._trials.run(f"{_TASKS}:check", reduction=case.to_json(), number=number, **self._asked)
        made = self._trials.run(f"{_TASKS}:write", reduction=case.to_json(), name=_CASE, title="", **self._asked)
        if made.kind != "done":
            return made
        path = self._folder / _CASE / SCRIPT
        path.write_text(made.answer["script"])  # the trial may have run before
        failed = self._fails.fails_script(path)
        return Outcome("error" if failed is None else "done", {"failed": failed, "text": self._fails.label})

    def _list_shapes(self, case: Reduced) -> dict[str, list[int]]:
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
