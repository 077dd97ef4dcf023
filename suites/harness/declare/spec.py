"""The declared form of a suite (TOML) and its expansion to cases. Knows names of models and backends, imports none.

Every message names the file, the key, what was expected and the nearest known name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

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

IO = ("torch", "numpy")
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
    io: Names = ["torch"]


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
            for case in self._expand(sweep):
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
            for case in self._expand(sweep)
        }

    def _expand(self, sweep: ModelSweep) -> Iterator[Case]:
        threads, devices = sweep.threads or self.threads, sweep.device or self.device
        return _expand(sweep, threads, sweep.precision or self.precision, devices)


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
        reason = str(error).replace("end of document", f"line {text.count(chr(10)) + 1}, end of document")
        raise UsageError(f"{source}: not valid TOML: {reason}") from None
    try:
        suite = Suite.model_validate(raw)
    except ValidationError as error:
        lines = [_explain(problem) for problem in error.errors(include_url=False)]
        raise UsageError("\n".join(f"{source}: {line}" for line in lines)) from None
    problems = list(_unknown_names(suite, folder))
    if problems:
        raise UsageError("\n".join(f"{source}: {line}" for line in problems))
    return resolve(suite, folder)


def resolve(suite: Suite, folder: Path) -> Suite:
    """`suite` with the lasting name of every ``engine@PATH``; UsageError as `versions.resolve`."""
    return relabelled(suite, lambda label: versions.resolve(label, folder))


def relabelled(suite: Suite, change: Callable[[str], str]) -> Suite:
    """`suite` with `change` of every label in the place of the label."""

    def named(labels: Sequence[str]) -> list[str]:
        return [change(label) for label in labels]

    sweeps = [
        sweep if sweep.backends is None else sweep.model_copy(update={"backends": named(sweep.backends)})
        for sweep in suite.models
    ]
    (baseline,) = named([suite.baseline])
    return suite.model_copy(update={"models": sweeps, "backends": named(suite.backends), "baseline": baseline})


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
    try:
        return Suite.model_validate({"name": stem or "model", "models": [sweep], **fields})
    except ValidationError as error:
        raise UsageError("\n".join(f"{model}: {_explain(one)}" for one in error.errors(include_url=False))) from None


def find(name: str) -> Path:
    """The file of a suite given by path or by name; UsageError with the nearest name otherwise."""
    given = Path(name)
    if given.suffix == ".toml" and given.is_file():
        return given
    if given.suffix == ".toml" and given.is_dir():
        raise UsageError(f"{name}: is a folder; expected the file of a suite")
    known = shipped()
    if given.suffix == ".toml" and given.stem not in known:
        raise UsageError(f"{name}: no such file")
    if given.stem not in known:
        raise UsageError(unknown("suite", name, known))
    return known[given.stem]


def shipped() -> dict[str, Path]:
    """Name -> file of the suites that come with the package."""
    return {path.stem: path for path in sorted(paths.PACKAGE.glob("*.toml"))}


def _expand(
    sweep: ModelSweep, threads: Sequence[int], precisions: Sequence[str], devices: Sequence[str]
) -> Iterator[Case]:
    spec = models.get(sweep.name)
    defaults = {key: [size] for key, size in spec.shape_keys.items() if size is not None}
    shape: Mapping[str, Sequence[int]] = {**defaults, **sweep.shape}
    for sizes in _product(shape):
        for options in _product(sweep.options):
            swept = itertools.product(precisions, threads, sweep.switches, sweep.io, devices)
            for precision, count, switches, io, place in swept:
                yield Case(sweep.name, sizes, count, precision, options, switches, io, place)


def _product(table: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*table.values()):
        yield dict(zip(table, values, strict=True))


def _unknown_names(suite: Suite, folder: Path) -> Iterator[str]:
    labels = [("baseline", suite.baseline), *(("backends", label) for label in suite.backends)]
    for position, sweep in enumerate(suite.models):
        labels += [(f"models[{position}].backends", label) for label in sweep.backends or []]
        yield from (f"models[{position}]{line}" for line in _model_problems(sweep))
    for key, label in labels:
        try:
            registry.check(BackendRef.parse(versions.resolve(label, folder)))
        except EngineError as error:
            yield f"{key}: {error}"
    yield from _place_problems(suite)
    for position, sweep in enumerate(suite.models):
        yield from (f"models[{position}].{line}" for line in _place_problems(sweep))


def _place_problems(owner: Suite | ModelSweep) -> Iterator[str]:
    """Precisions and devices of `owner` that do not exist."""
    for name in owner.precision or ():
        if name not in PRECISIONS:
            yield f"precision: {unknown('precision', name, PRECISIONS)}"
    for name in owner.device or ():
        try:
            device.own_class(name)
        except UsageError as error:
            yield f"device: {error}"


def _model_problems(sweep: ModelSweep) -> Iterator[str]:
    """What is wrong with `sweep`: ``.key: reason``, or ``: reason`` where several keys together are wrong."""
    try:
        spec = models.get(sweep.name)
    except models.ModelError as error:
        yield f".name: {error}"
        return
    wrong = [
        f".{kind}: {_unknown_key(kind, key, known, spec)}"
        for kind, given, known in (("shape", sweep.shape, spec.shape_keys), ("options", sweep.options, spec.options))
        for key in given
        if key not in known and (kind == "shape" or spec.option(key) is None)
    ]
    yield from wrong
    yield from (f".io: {unknown('io', io, IO)}" for io in sweep.io if io not in IO)
    if not wrong:
        yield from dict.fromkeys(f": {problem}" for problem in _value_problems(sweep, spec))
    for switches in sweep.switches:
        try:
            registry.check_switches(switches)
        except EngineError as error:
            yield f".switches: {error}"


def _unknown_key(kind: str, key: str, known: Mapping[str, Any], spec: models.ModelSpec) -> str:
    text = unknown("key", key, known)
    if kind == "shape" and spec.option(key) is not None:
        return f"{text}. {key} is an option: options = {{ {key} = ... }}"
    if kind == "options" and key in spec.shape_keys:
        return f"{text}. {key} is a size: shape = {{ {key} = ... }}"
    return text


def _value_problems(sweep: ModelSweep, spec: models.ModelSpec) -> Iterator[str]:
    for case in _expand(sweep, [1], ["fp32"], [device.CPU]):
        try:
            spec.complete(case.build_arguments)
        except models.ModelError as error:
            yield str(error)


_FIELDS: dict[str, type[BaseModel]] = {"models": ModelSweep, "timeouts": Timeouts}


_NEAR_SHAPE = ("size", "sizes")
"""Keys that somebody may write for the key of the sizes, which is not spelled like them."""


def _explain(problem: Any) -> str:
    """One line of a pydantic error in the words of the file."""
    place = [part for part in problem["loc"] if not (isinstance(part, str) and "[" in part)]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    if problem["type"] == "extra_forbidden":
        owner = next((_FIELDS[str(part)] for part in place[:-1] if str(part) in _FIELDS), Suite)
        if owner is ModelSweep and place[-1] in _NEAR_SHAPE:
            known = ", ".join(sorted(owner.model_fields))
            return f"{key}: unknown key {place[-1]!r}; did you mean 'shape'? Known: {known}"
        return f"{key}: {unknown('key', place[-1], owner.model_fields)}"
    if problem["type"] == "missing":
        return f"{key}: this key is required"
    return f"{key}: {describe(problem)}"
