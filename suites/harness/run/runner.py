"""A whole run: plan, file, cases in order, resuming. Ties the parts together; measures nothing itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites import backends
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import CPU, label
from suites.harness.errors import UsageError
from suites.harness.judge.history import History
from suites.harness.judge.summary import Question, summarise
from suites.harness.measure import device
from suites.harness.record import machine, store
from suites.harness.record.roofs import Roofs
from suites.harness.record.store import Line
from suites.harness.run.casework import CaseWork
from suites.harness.run.plan import RunPlan
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import EXPORTS, Worker, WorkerFailed, run_folder, scratch_folder


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        path: its file.
        environment: the first line.
        summaries: its summary lines.
    """

    path: Path
    environment: Line
    summaries: list[Line]

    @property
    def succeeded(self) -> bool:
        """True where every row is ok or unavailable."""
        return all(line["status"] in ("ok", "unavailable") for line in self.summaries)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"path": str(self.path), "environment": self.environment, "summaries": self.summaries}


class Interrupted(Exception):
    """Ctrl-C during a run; `path` holds what was stored."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def run(
    plan: RunPlan,
    results: Path,
    reporter: Reporter,
    *,
    resume: bool = False,
    measure_roofs: Callable[[], Roofs] | None = None,
) -> Outcome:
    """Measure every case of `plan` into one file under `results`.

    Args:
        plan: what to do.
        results: the results folder.
        reporter: told what happens.
        resume: continue the newest unfinished run of the same plan instead of starting one.
        measure_roofs: called when a run starts; without, the run has no roofs and its rows no share of them.

    Raises:
        UsageError: nothing to resume.
        Interrupted: on Ctrl-C; everything measured so far is stored.
    """
    earlier = _unfinished(plan, results) if resume else None
    environment = earlier.environment if earlier else _environment(plan, measure_roofs)
    path = earlier.path if earlier else store.new_path(results, plan.suite.name, environment)
    history = History(results, exclude=path)
    summaries: list[Line] = []
    try:
        with store.Writer(path, resume=resume) as writer, run_folder() as folder:
            if earlier is None:
                writer.append(environment)
            reporter.start(plan.units(), f"suite {plan.suite.name}")
            for line in _cases(plan, earlier, folder, history, environment, reporter):
                writer.append(*line)
                summaries += [one for one in line if one["kind"] == "summary"]
    except KeyboardInterrupt:
        raise Interrupted(path) from None
    known = {line["case"]: None for line in summaries}
    finished = [one for one in earlier.of("summary") if one["case"] not in known] if earlier else []
    return Outcome(path, environment, in_order(finished + summaries, plan))


def in_order(summaries: Sequence[Line], plan: RunPlan) -> list[Line]:
    """Summaries in the order of the plan; of several for one row the last."""
    latest = {(line["case"], line["backend"]): line for line in summaries}
    wanted = [(case.id, ref.label) for case, refs in plan.cases for ref in refs]
    return [latest[key] for key in wanted if key in latest]


def _cases(
    plan: RunPlan,
    earlier: store.Run | None,
    folder: Path,
    history: History,
    environment: Line,
    reporter: Reporter,
) -> Iterator[list[Line]]:
    """Lines to write, in blocks that belong together."""
    samples = earlier.of("samples") if earlier else []
    complete = _finished_cases(earlier) if earlier else set()
    seed = folder / "provisioned"
    seed.mkdir()
    provisioned: set[str] = set()
    references, exports = References(folder, plan.suite.timeouts.reference), _Exports(scratch_folder(folder, "exports"))
    for number, (case, refs) in enumerate(plan.cases, 1):
        if case.id in complete:
            reporter.advance(plan.workers(case, refs))
            continue
        _provision(case, refs, seed, folder, provisioned, reporter)
        scratch = scratch_folder(folder, f"case_{number}")
        shutil.copytree(seed, scratch / "cache")
        exports.lend(case, scratch / "cache")
        done = [line for line in samples if line["case"] == case.id]
        lines: list[Line] = []
        for part, members in enumerate(plan.parted(case, refs)):
            first = part * plan.suite.generations
            work = CaseWork(case, members, plan.suite, scratch, scratch / "cache", references, reporter, done, first)
            yield from work.generations()
            lines += work.lines
        question = Question(case, refs, plan.baseline, plan.suite.same_within, _roofs(environment, case.device))
        found = summarise(question, lines, history)
        yield found
        reporter.finished(case.id, number, len(plan.cases), found)
        exports.take_back(case, scratch / "cache")
        shutil.rmtree(scratch)


class _Exports:
    """What backends exported in the case before: cases of one computation and device do not do it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of: tuple[str, str] | None = None

    def lend(self, case: Case, cache: Path) -> None:
        """Move what was exported of the same computation into the cache of a case."""
        for path in self._folder.iterdir():
            if self._of == (case.computation, case.device):
                shutil.move(path, cache / path.name)
            else:
                shutil.rmtree(path)

    def take_back(self, case: Case, cache: Path) -> None:
        """Keep what a case has exported until the next one."""
        self._of = case.computation, case.device
        for path in cache.glob(f"{EXPORTS}*"):
            shutil.move(path, self._folder / path.name)


def _provision(
    case: Case, refs: Sequence[BackendRef], seed: Path, folder: Path, done: set[str], reporter: Reporter
) -> None:
    """Have each backend that needs it do, once a run, what a machine pays once. A failure shows in its rows."""
    for ref in refs:
        declared = backends.BACKENDS.get(ref.name)
        if declared is None or not declared.provisions or ref.name in done:
            continue
        if backends.unavailable(ref) or backends.unable(ref, case):
            continue
        done.add(ref.name)
        reporter.doing(f"{ref.name}: what a machine pays once")
        try:
            with Worker(case, ref, scratch_folder(folder, f"provision_{ref.name}"), seed) as worker:
                worker.ask("load", 120)
                worker.ask("provision", 300)
        except WorkerFailed as failure:
            reporter.say(f"{ref.name}: {failure.reason}")


def _environment(plan: RunPlan, measure_roofs: Callable[[], Roofs] | None) -> Line:
    threads = sorted({case.threads for case, _ in plan.cases})
    fixed: dict[str, Any] = {"kind": "environment", **machine.environment(), "threads": threads}
    fixed["roofs"] = measure_roofs().to_dict() if measure_roofs is not None else None
    names = sorted({case.device for case, _ in plan.cases})
    fixed["devices"] = {label(name): _device_facts(name, with_roofs=measure_roofs is not None) for name in names}
    return {**fixed, "suite": plan.suite.name, "plan_digest": plan.digest, "plan": plan.to_dict()}


def _device_facts(name: str, *, with_roofs: bool) -> Line:
    """What a device of the plan says of itself. Roofs of the cpu are `roofs` of the environment line."""
    found = device.load(name)
    missing = found.unavailable()
    if missing is not None:
        return {"unavailable": missing}
    roofs = found.roofs() if with_roofs and name != CPU else None
    return {**found.facts(), **({"roofs": roofs.to_dict()} if roofs is not None else {})}


def _roofs(environment: Line, name: str) -> Roofs | None:
    """The roofs of a device that a run has recorded; None where it has none."""
    of = environment if name == CPU else environment.get("devices", {}).get(label(name), {})
    return Roofs.from_dict(of["roofs"]) if of.get("roofs") else None


def finished(plan: RunPlan, results: Path) -> store.Run | None:
    """The newest run of this plan on this machine, where it is complete and made by this very code."""
    now = machine.revision()
    run = next(_runs(plan, results), None)
    if run is None or not _is_complete(run, plan) or any(run.environment.get(key) != now[key] for key in now):
        return None
    return run


def _runs(plan: RunPlan, results: Path) -> Iterator[store.Run]:
    """Runs of this plan on this machine, newest first."""
    for path in reversed(store.run_files(results)):
        if path.stem.endswith(f"_{plan.suite.name}"):
            run = store.read(path)
            if run.environment.get("plan_digest") == plan.digest:
                yield run


def _is_complete(run: store.Run, plan: RunPlan) -> bool:
    return _finished_cases(run) >= {case.id for case, _ in plan.cases}


def _unfinished(plan: RunPlan, results: Path) -> store.Run:
    """The newest run of this plan on this machine that lacks cases, made by this very code."""
    now = machine.revision()
    for run in _runs(plan, results):
        if _is_complete(run, plan):
            continue
        if any(run.environment.get(key) != now[key] for key in now):
            made = f"{run.environment.get('commit')}{'-dirty' if run.environment.get('dirty') else ''}"
            raise UsageError(f"{run.path.name} was started with other code ({made}): start a new run without --resume")
        return run
    raise UsageError(
        f"nothing to resume: no unfinished run of suite {plan.suite.name} with these cases, backends and files under "
        f"{store.runs_folder(results)}"
    )


def _finished_cases(run: store.Run) -> set[str]:
    """Cases that have a summary of every backend that the plan names."""
    found: dict[str, set[str]] = {}
    for line in run.of("summary"):
        found.setdefault(line["case"], set()).add(line["backend"])
    planned = run.environment.get("plan", {}).get("cases", {})
    return {case for case, labels in found.items() if labels >= set(planned.get(case, labels))}
