"""Which cases a run does, with whom, and about how long it will take. Starts nothing."""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites import backends as registry
from suites import models
from suites.backends import versions
from suites.harness.declare.case import BackendRef, Case, Scalar
from suites.harness.declare.only import Only
from suites.harness.declare.spec import LEAST_TOGETHER, Suite, resolve
from suites.harness.errors import UsageError
from suites.harness.measure import device
from suites.harness.record import store
from suites.harness.record.schema import Samples

ASSUMED_WORKER_S = 4.0
"""Seconds a worker process is assumed to take where there is no record of any (measured: 2.5 to 8.5)."""
RECENT = 10
"""Runs that an estimate reads, the newest ones."""
MOST_VALUES = 6
"""Values of a field that a message shows."""
CASE_S = 4.0
"""Seconds a case is assumed to take beside its workers: the reference, and ending processes."""


_NOT_ASKED = {"models", "backends", "threads", "precision", "device", "worker_s", "accuracy"}
"""Keys of a suite that are in the cases, or change nothing that is timed."""


@dataclass(frozen=True)
class RunPlan:
    """A suite, expanded and filtered.

    Attributes:
        suite: as declared, or as `--backends` changed it.
        cases: each with its backends: the baseline, its second copy, then the others.
        parts: case id -> labels that take turns with each other, where not all of a case's backends do: many processes
            at once would not fit into memory. Parts share what comparisons need, and have generations of their own.
    """

    suite: Suite
    cases: Sequence[tuple[Case, list[BackendRef]]]
    parts: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    @property
    def baseline(self) -> str:
        """Label of the backend that speeds are against."""
        return BackendRef.parse(self.suite.baseline).label

    @property
    def digest(self) -> str:
        """Two plans with one digest ask for the same measurements."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """For the environment line: what is measured, however it was asked for."""
        cases = {case.id: [ref.label for ref in refs] for case, refs in self.cases}
        fixed = self.suite.model_dump(mode="json", exclude=_NOT_ASKED)
        more = {"parts": self.parts, "files": self.files(), "engines": self.engines()}
        more = {name: value for name, value in more.items() if value}
        return {**fixed, "baseline": self.baseline, "cases": cases, **more}

    def files(self) -> dict[str, str]:
        """Name -> digest of the content, of each of `list_files`."""
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in self.list_files()}

    def list_files(self) -> list[Path]:
        """Each file of a user that has a model, a backend, a recipe or a pass."""
        names = {case.device for case, _ in self.cases} | {ref.name for _, refs in self.cases for ref in refs}
        paths = {Path(name.rpartition(":")[0]).expanduser() for name in names if ".py:" in name}
        options = [ref.options for _, refs in self.cases for ref in refs]
        paths |= {Path(chosen["recipe"]).expanduser() for chosen in options if "recipe" in chosen}
        passes = [name for chosen in options for name in chosen.get("passes", "").split("+") if ".py:" in name]
        paths |= {Path(name.rpartition(":")[0]).expanduser() for name in passes}
        paths |= {models.file_of(case.model) for case, _ in self.cases if models.is_path(case.model)}
        return [path for path in sorted(paths) if path.is_file()]

    def engines(self) -> dict[str, dict[str, Any]]:
        """Of each other version of the engine, what `versions.Version.facts` says of it."""
        names = {ref.name: None for _, refs in self.cases for ref in refs if versions.is_version(ref.name)}
        return {name: dict(versions.get(name).facts) for name in names}

    def parted(
        self,
        case: Case,
        refs: Sequence[BackendRef],
        fit: int | None = None,
        idle: Collection[BackendRef] = (),
    ) -> list[list[BackendRef]]:
        """The backends of a case, by who takes turns with whom.

        Args:
            case: one of the plan.
            refs: its backends.
            fit: how many processes fit into memory; counts where the suite sets no limit. None: any number.
            idle: those of the backends that cannot run the case, and need no memory.
        """
        if case.id in self.parts:
            parts = self.parts[case.id]
        elif fit is not None and case.id not in self.suite.together():
            running = [ref for ref in refs if ref not in idle]
            parts = _parts(running, self.suite.baseline, max(LEAST_TOGETHER, fit))
            parts[-1] += [ref.label for ref in refs if ref in idle]
        else:
            return [list(refs)]
        of = {ref.label: ref for ref in refs}
        return [[of[label] for label in labels] for labels in parts]

    def workers(self, case: Case, refs: Sequence[BackendRef]) -> int:
        """Worker processes of one case."""
        return sum(map(len, self.parted(case, refs))) * self.suite.generations

    def units(self) -> int:
        """Worker processes of the whole run."""
        return sum(self.workers(case, refs) for case, refs in self.cases)

    def estimate(self, results: Path) -> tuple[float, str]:
        """The seconds that the run will take, about, and what the estimate rests on.

        A row that no record has is taken to cost what its model did in other cases of the suite, otherwise in any
        suite; with the same backend, otherwise with any. A model that no record has costs what the suite says,
        otherwise the median of the recorded workers, otherwise `ASSUMED_WORKER_S`. Records of other machines count
        if there is none of this one.
        """
        files, basis = store.run_files(results), "from records of this machine"
        if not files:
            files, basis = store.all_run_files(results), "from records of other machines"
        known = _read_costs(sorted(files, key=lambda path: path.name)[-RECENT:])
        mean = {key: statistics.fmean(values) for key, values in known.items()}
        every = [value for key, values in known.items() if key[1:] == () for value in values]
        usual = self.suite.worker_s or (statistics.median(every) if every else ASSUMED_WORKER_S)
        seconds, is_known = CASE_S * len(self.cases), False
        for case, refs in self.cases:
            for ref in itertools.chain.from_iterable(self.parted(case, refs)):
                keys = _akin(self.suite.name, case.id, ref.label)
                for is_first, times in ((True, 1), (False, self.suite.generations - 1)):
                    cost = next((mean[is_first, *key] for key in keys if (is_first, *key) in mean), None)
                    is_known = is_known or cost is not None
                    seconds += times * (usual if cost is None else cost)
        if not is_known:
            basis = f"assuming {usual:.3g} s a process, since no record has these models"
        return seconds, basis


def describe_duration(seconds: float) -> str:
    """An estimate in words: ``40 seconds``, ``1.5 minutes``; at least a second."""
    if seconds >= 59.5:
        return f"{seconds / 60:.1f} minutes"
    whole = max(1, round(seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"


def _read_costs(files: Sequence[Path]) -> dict[tuple[Any, ...], list[float]]:
    """(whether it is the first generation, key of `_akin`) -> seconds of each recorded worker."""
    known: dict[tuple[Any, ...], list[float]] = {}
    for path in files:
        try:
            run = store.read(path)
        except UsageError:
            continue
        suite = run.environment.suite
        for line in run.of(Samples):
            if line.elapsed_s <= 0:  # its worker never started, because there was no reference, say
                continue
            for key in (*_akin(suite, line.case, line.backend), ()):
                known.setdefault((line.generation == 0, *key), []).append(line.elapsed_s)
    return known


def _akin(suite: str, case: str, backend: str) -> tuple[tuple[str, ...], ...]:
    """Keys of what costs about as much as this row, the nearest first."""
    model = case.partition("/")[0]
    return (suite, case, backend), ("", case, backend), (suite, model, "", backend), (model, "", backend), (model,)


def make(
    suite: Suite,
    only: str | None = None,
    backends: Sequence[str] | None = None,
    baseline: str | None = None,
) -> RunPlan:
    """The plan for `suite`. A relative path of an ``engine@PATH`` is relative to the current folder.

    Args:
        suite: what is declared.
        only: an expression over the fields of a case and ``backend``; see `suites.harness.declare.only`.
        backends: labels to run instead of the suite's. The baseline always runs: speeds are against it.
        baseline: the label that speeds are against instead of the suite's.

    Raises:
        UsageError: an unknown name, or nothing is left to run.
    """
    suite = add_rows(suite, backends)
    if baseline is not None:
        suite = suite.model_copy(update={"baseline": baseline})
    suite = resolve(suite, Path.cwd())
    for label in (suite.baseline, *suite.backends):
        registry.check(BackendRef.parse(label))
    cases = list(suite.cases())
    if only is not None:
        fields = list_fields(cases)
        cases = _filtered(cases, Only(only, fields), BackendRef.parse(suite.baseline).label)
        if not cases:
            raise UsageError(
                f"--only {only!r} leaves no case of suite {suite.name}. Its fields: {describe_fields(fields)}"
            )
    for name in {case.device for case, _ in cases}:
        device.load(name)
    whole = [(case, with_twin(refs, suite.baseline)) for case, refs in cases]
    most = suite.together()
    parts = {case.id: _parts(refs, suite.baseline, most[case.id]) for case, refs in whole if case.id in most}
    return RunPlan(suite, whole, {case: divided for case, divided in parts.items() if len(divided) > 1})


def add_rows(suite: Suite, backends: Sequence[str] | None, more: Sequence[str] = ()) -> Suite:
    """`suite` with other backends than its own, or with further ones.

    Args:
        suite: what is declared.
        backends: labels instead of the suite's; None or empty: those of the suite.
        more: further labels, in every case.
    """
    sweeps = []
    for sweep in suite.models:
        labels = None if backends or sweep.backends is None else [*sweep.backends, *more]
        sweeps.append(sweep.model_copy(update={"backends": labels}))
    return suite.model_copy(update={"backends": [*(backends or suite.backends), *more], "models": sweeps})


def list_fields(cases: Sequence[tuple[Case, Sequence[BackendRef]]]) -> dict[str, list[Scalar]]:
    """Field that ``--only`` may ask about -> its values in these cases, in order of appearance."""
    fields: dict[str, dict[Scalar, None]] = {}
    for case, refs in cases:
        for name, value in case.fields.items():
            fields.setdefault(name, {})[value] = None
        for ref in refs:
            fields.setdefault("backend", {})[BackendRef(ref.name, ref.options).label] = None
    return {name: list(fields[name]) for name in sorted(fields)}


def describe_fields(fields: Mapping[str, Sequence[Scalar]]) -> str:
    """Each field with its values: ``batch 1, 32; threads 1``; of many values the first ones."""
    texts = []
    for name, values in fields.items():
        shown = [repr(value) for value in values[:MOST_VALUES]]
        texts.append(f"{name} {', '.join([*shown, *(['...'] if len(values) > MOST_VALUES else [])])}")
    return "; ".join(texts)


def _parts(refs: Sequence[BackendRef], baseline: str, most: int) -> list[list[str]]:
    """Labels that take turns with each other, `most` at once: in each part what comparisons need, and some others.

    Ours is compared with the baseline, with other versions and with the best peer, whichever that turns out to be; a
    peer, or another version, with the baseline.
    """
    if len(refs) <= most:
        return [[ref.label for ref in refs]]
    base = BackendRef.parse(baseline)
    needed = [ref.label for ref in refs if ref in (base, base.again()) or registry.ours(ref)]
    others = [ref.label for ref in refs if ref.label not in needed]
    size = max(1, most - len(needed))
    return [[*needed, *others[begin : begin + size]] for begin in range(0, len(others), size)]


def _filtered(
    cases: Sequence[tuple[Case, list[BackendRef]]], only: Only, baseline: str
) -> list[tuple[Case, list[BackendRef]]]:
    filtered = []
    for case, refs in cases:
        wanted = [ref for ref in refs if only({**case.fields, "backend": ref.label})]
        if wanted:
            filtered.append((case, [ref for ref in refs if ref in wanted or ref.label == baseline]))
    return filtered


def with_twin(refs: Sequence[BackendRef], baseline: str) -> list[BackendRef]:
    """The baseline, its second copy, then the others."""
    first = BackendRef.parse(baseline)
    twin = first.again()
    return [first, twin, *(ref for ref in refs if ref.label not in (first.label, twin.label))]
