"""The declared form of a suite (TOML) and its expansion to cases. Knows names of models and backends, imports none.

Every message names the file, the key, what was expected and the nearest known name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from engine.errors import EngineError
from engine.suggest import unknown
from suites import backends as registry
from suites import models, paths
from suites.backends import versions
from suites.harness.declare import device
from suites.harness.declare.case import SAME_WITHIN, BackendRef, Case
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError, describe_unreadable
from suites.harness.files import parse_toml, read_text_file
from suites.harness.invalid import describe

MOST_GENERATIONS = 1000
"""Generations of a run: ten detect most differences of 3%."""
LEAST_TOGETHER = 4
"""Processes that comparisons need: the baseline, its second copy, the engine and one other backend."""


def _as_list(value: Any) -> Any:
    """A single value is a list of one."""
    return [value] if isinstance(value, str | int | float | bool) else value


def _check_distinct(values: list[Any]) -> list[Any]:
    """The values; an error if one is given twice. True and 1 are two values."""
    keys = [repr(value) for value in values]
    if len(set(keys)) < len(keys):
        raise PydanticCustomError("repeated", "each value once")
    return values


_EACH_ONCE = (BeforeValidator(_as_list), AfterValidator(_check_distinct), Field(min_length=1))
Sizes = Annotated[list[Annotated[int, Field(ge=0, strict=True)]], *_EACH_ONCE]
Choices = Annotated[list[str | int | float | bool], *_EACH_ONCE]
Threads = Annotated[list[Annotated[int, Field(ge=1, strict=True)]], *_EACH_ONCE]
Names = Annotated[list[str], *_EACH_ONCE]
Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Timeouts(_Strict):
    """Seconds that one phase of one worker may take; then it is killed and its row reads `timeout`."""

    load: Seconds = 120.0
    prepare: Seconds = 300.0
    verify: Seconds = 120.0
    warm: Seconds = 60.0
    sample: Seconds = 60.0
    reference: Seconds = 300.0


class ModelSweep(_Strict):
    """One ``[[models]]`` entry: every combination of its lists is a case. A list has each value once.

    Attributes:
        name: a model of ``enginebench list models``, or a file: ``path.py:factory``, ``path.pt2``, ``path.onnx``.
        shape: size name -> one value or a list. Missing sizes take the model's defaults.
        options: variant name -> one value or a list.
        switches: tables of switches for the backends that have them; ``{}`` is everything on.
        threads, precision, device: instead of the suite's.
        backends: instead of the suite's.
        together: processes that hold the model at once, at most: further backends take turns in further parts, each
            with the baseline, its second copy and the engine. Without it, the memory that is available when the case
            starts sets the limit.
        io: ``torch``, ``numpy`` or both: what calls take and give.
    """

    name: str
    shape: dict[str, Sizes] = {}
    options: dict[str, Choices] = {}
    switches: Annotated[list[dict[str, str]], AfterValidator(_check_distinct), Field(min_length=1)] = [{}]
    threads: Threads | None = None
    precision: Names | None = None
    device: Names | None = None
    backends: Names | None = None
    together: Annotated[int, Field(ge=LEAST_TOGETHER, strict=True)] | None = None
    io: Annotated[list[Literal["torch", "numpy"]], *_EACH_ONCE] = ["torch"]


class Suite(_Strict):
    """One suite file.

    Attributes:
        name: part of the file name of a run.
        description: one line.
        models: what to sweep.
        backends: who takes part; the baseline is added where it is missing.
        baseline: the backend that speeds are against. It runs twice: the second copy gives the A/A floor.
        threads, precision, device: swept for every model.
        rounds: rounds of one process generation; in each, every backend runs once.
        samples_per_round: timed samples of one turn; of slow calls fewer, one at least.
        generations: fresh sets of processes; from 2 to `MOST_GENERATIONS`.
        generation_budget_s: rounds of one generation stop after this many seconds (never before three).
        same_within: 0.02 reads "same within 2%".
        accuracy: whether the outputs of each model, backend and precision are scored on data, too.
        worker_s: seconds that a worker takes, for the estimate before a machine has run the suite.
        timeouts: seconds a phase.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
    description: str = ""
    models: Annotated[list[ModelSweep], Field(min_length=1)]
    backends: Names
    baseline: str = "eager"
    threads: Threads = [1]
    precision: Names = ["fp32"]
    device: Names = [device.CPU]
    rounds: Annotated[int, Field(ge=3, strict=True)] = 15
    samples_per_round: Annotated[int, Field(ge=1, strict=True)] = 3
    generations: Annotated[int, Field(ge=2, le=MOST_GENERATIONS, strict=True)] = 2
    generation_budget_s: Seconds = 20.0
    same_within: Annotated[float, Field(gt=0, lt=0.5, strict=True)] = SAME_WITHIN
    accuracy: StrictBool = False
    worker_s: Seconds | None = None
    timeouts: Timeouts = Timeouts()

    def cases(self) -> Iterator[tuple[Case, list[BackendRef]]]:
        """Every case once, in declared order, with the backends that run it (the baseline first)."""
        seen: dict[str, str] = {}
        named: dict[str, str] = {}
        places: dict[str, str] = {}
        for sweep in self.models:
            refs = [BackendRef.parse(label) for label in (self.baseline, *(sweep.backends or self.backends))]
            for ref in refs:
                _one_name("backend", named, ref.label, ref.spelling)
            for case in self.expand(sweep):
                is_new = case.id not in seen
                _one_name("model", seen, case.id, case.model)
                _one_name("device", places, device.label(case.device), case.device)
                if is_new:
                    yield case, list({ref.label: ref for ref in refs}.values())

    def together(self) -> dict[str, int]:
        """Case -> how many processes may hold its model at once, where that is limited."""
        return {
            case.id: sweep.together
            for sweep in reversed(self.models)  # of a case that is declared twice, the first one counts
            if sweep.together is not None
            for case in self.expand(sweep)
        }

    def expand(self, sweep: ModelSweep) -> Iterator[Case]:
        """The cases of one of `models`: every combination of its lists."""
        spec = models.get(sweep.name)
        defaults = {key: [size] for key, size in spec.shape_keys.items() if size is not None}
        precisions, threads = sweep.precision or self.precision, sweep.threads or self.threads
        for sizes, options in itertools.product(_product(defaults | sweep.shape), _product(sweep.options)):
            swept = itertools.product(precisions, threads, sweep.switches, sweep.io, sweep.device or self.device)
            for precision, count, switches, io, place in swept:
                yield Case(sweep.name, sizes, count, precision, options, switches, io, place)


def _one_name(kind: str, known: dict[str, str], name: str, path: str) -> None:
    """Note what `path` is called in records; UsageError where another file is, too, since names say no folder."""
    if known.setdefault(name, path) != path:
        raise UsageError(f"two {kind}s would both be called {name}: {known[name]} and {path}. Rename one file")


def load(path: Path) -> Suite:
    """The suite in the file at `path`; UsageError names file, key, expectation and nearest match.

    A relative path of an ``engine@PATH`` is relative to the file's folder.
    """
    try:
        text = read_text_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {describe_unreadable(error)}") from None
    return parse(text, str(path), path.parent)


def parse(text: str, source: str, folder: Path = Path()) -> Suite:
    """The suite that TOML `text` declares; `source` names it in messages, `folder` is what paths are relative to."""
    try:
        raw = parse_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from None
    return resolve(_validate(raw, source, folder), folder)


def _validate(raw: Mapping[str, Any], source: str, folder: Path) -> Suite:
    """The suite with the keys of `raw`; one UsageError with all that is wrong, a line each."""
    try:
        suite = Suite.model_validate(raw)
    except ValidationError as error:
        problems = [_explain(problem) for problem in error.errors(include_url=False)]
    else:
        problems = list(_unknown_names(suite, folder))
    if problems:
        raise UsageError("\n".join(f"{source}: {line}" for line in problems))
    return suite


def resolve(suite: Suite, folder: Path) -> Suite:
    """`suite` with the lasting name of every ``engine@PATH``; UsageError as `versions.resolve`."""

    def name(labels: Sequence[str]) -> list[str]:
        return [versions.resolve(label, folder) for label in labels]

    sweeps = [
        sweep if sweep.backends is None else sweep.model_copy(update={"backends": name(sweep.backends)})
        for sweep in suite.models
    ]
    baseline = versions.resolve(suite.baseline, folder)
    return suite.model_copy(update={"models": sweeps, "backends": name(suite.backends), "baseline": baseline})


def of_model(model: str, arguments: Mapping[str, Any], **fields: Any) -> Suite:
    """A suite of one model, called after the model or its file unless `fields` say otherwise.

    Args:
        model: a name or a user's file, as in `ModelSweep`.
        arguments: its sizes and options; of a list, each value is a case of its own.
        fields: those of a `Suite`; ``backends`` at least.

    Raises:
        models.ModelError: an unknown model, key or value.
        UsageError: a field that does not fit.
    """
    known = models.get(model)
    for chosen in _product({key: value if isinstance(value, list) else [value] for key, value in arguments.items()}):
        known.complete(chosen)
    stem = re.sub(r"[^\w-]", "_", models.file_of(model).stem, flags=re.ASCII).strip("_-")
    sweep = {
        "name": model,
        "shape": {key: value for key, value in arguments.items() if key in known.shape_keys},
        "options": {key: value for key, value in arguments.items() if key not in known.shape_keys},
    }
    return _validate({"name": stem or "model", "models": [sweep], **fields}, model, Path.cwd())


def find(name: str) -> Path:
    """The file of a suite given by path or by name; UsageError with the nearest name otherwise."""
    known = shipped()
    if not name.endswith(".toml") and name not in known:
        raise UsageError(unknown("suite", name, known))
    return known.get(name) or Path(name)


def shipped() -> dict[str, Path]:
    """Name -> file of the suites that come with the package."""
    return {path.stem: path for path in sorted(paths.PACKAGE.glob("*.toml"))}


def _product(table: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*table.values()):
        yield dict(zip(table, values, strict=True))


def _unknown_names(suite: Suite, folder: Path) -> Iterator[str]:
    """A line for each name in `suite` that does not exist, and for each value that a model does not take."""

    def check(label: str) -> None:
        registry.check(BackendRef.parse(versions.resolve(label, folder)))

    yield from _list_errors("baseline", check, [suite.baseline])
    owners: list[tuple[str, Suite | ModelSweep]] = [("", suite)]
    owners += [(f"models[{index}].", sweep) for index, sweep in enumerate(suite.models)]
    for place, owner in owners:
        yield from _list_errors(f"{place}backends", check, owner.backends or ())
        yield from _list_errors(f"{place}device", device.own_class, owner.device or ())
        for name in owner.precision or ():
            if name not in PRECISIONS:
                yield f"{place}precision: {unknown('precision', name, PRECISIONS)}"
    for index, sweep in enumerate(suite.models):
        yield from _list_model_errors(f"models[{index}]", sweep, suite.expand(sweep))


def _list_errors(key: str, check: Callable[[Any], object], values: Iterable[Any]) -> Iterator[str]:
    """The errors that `check` raises for the values of a key."""
    for value in values:
        try:
            check(value)
        except EngineError as error:
            yield f"{key}: {error}"


def _list_model_errors(place: str, sweep: ModelSweep, cases: Iterator[Case]) -> Iterator[str]:
    yield from _list_errors(f"{place}.switches", registry.check_switches, sweep.switches)
    try:
        spec = models.get(sweep.name)
    except models.ModelError as error:
        yield f"{place}.name: {error}"
        return
    sizes = [key for key in sweep.shape if key not in spec.shape_keys]
    options = [key for key in sweep.options if spec.option(key) is None]
    wrong = [f"{place}.shape: {unknown('key', key, spec.shape_keys)}" for key in sizes]
    wrong += [f"{place}.options: {unknown('key', key, spec.options)}" for key in options]
    yield from wrong or dict.fromkeys(_list_errors(place, spec.complete, (case.build_arguments for case in cases)))


_FIELDS: dict[str, type[BaseModel]] = {"models": ModelSweep, "timeouts": Timeouts}


def _explain(problem: Any) -> str:
    """One line of a pydantic error in the words of the file."""
    place = [part for part in problem["loc"] if not (isinstance(part, str) and "[" in part)]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    if problem["type"] == "extra_forbidden":
        owner = next((_FIELDS[str(part)] for part in place[:-1] if str(part) in _FIELDS), Suite)
        return f"{key}: {unknown('key', place[-1], owner.model_fields)}"
    if problem["type"] == "missing":
        return f"{key}: this key is required"
    return f"{key}: {describe(problem)}"
