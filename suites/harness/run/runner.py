"""A whole run: plan, file, cases in order, resuming. Ties the parts together; measures nothing itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suites import backends
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import CPU, label
from suites.harness.errors import UsageError
from suites.harness.files import resolve_links
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import Question, summarise
from suites.harness.measure import device
from suites.harness.record import machine, store
from suites.harness.record.invocation import Invocation
from suites.harness.record.roofs import Roofs
from suites.harness.record.schema import HARMLESS, Environment, Plan, Samples, Summary
from suites.harness.run import checks, room
from suites.harness.run.casework import CaseWork
from suites.harness.run.plan import RunPlan
from suites.harness.run.provision import provision
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import EXPORTS, WorkerFailed, run_folder, scratch_folder
from suites.harness.run.stopwatch import Stopwatch


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        path: its file.
        environment: its first line.
        summaries: its summaries.
    """

    path: Path
    environment: Environment
    summaries: list[Summary]

    @property
    def succeeded(self) -> bool:
        """True where every row is ok, unavailable or not applicable."""
        return all(line.status in HARMLESS for line in self.summaries)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": str(self.path),
            "environment": store.to_json(self.environment),
            "summaries": [store.to_json(line) for line in self.summaries],
        }


class Interrupted(Exception):
    """Ctrl-C during a run.

    Attributes:
        path: the last file that holds what was stored; None if nothing was.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(str(path))
        self.path = path


def run(
    plan: RunPlan,
    results: Path,
    reporter: Reporter,
    *,
    invocation: Invocation | None = None,
    measure_roofs: Callable[[], Roofs] | None = None,
    stopwatch: Stopwatch | None = None,
) -> Outcome:
    """Measure every case of `plan` into one file under `results`.

    Args:
        plan: what to do.
        results: the results folder.
        reporter: told what happens.
        invocation: has the record to continue, if there is one; otherwise it keeps its arguments beside the new one.
        measure_roofs: called when a run starts; without, the run has no roofs and its rows no share of them.
        stopwatch: told what the time is spent on.

    Raises:
        UsageError: the record to continue is of another plan, or another process is writing to it.
        Interrupted: on Ctrl-C; everything measured so far is stored.
    """
    stopwatch = stopwatch or Stopwatch()
    invocation = invocation or Invocation()
    earlier = invocation.take_earlier()
    path = earlier.path if earlier else None
    if earlier is not None:
        # Who takes turns follows from the memory that was free when the run began.
        plan = replace(plan, parts=earlier.environment.plan.parts)
        if plan.digest != earlier.environment.plan_digest:
            raise UsageError(f"{earlier.name} cannot be resumed: its arguments ask for other measurements now")
    summaries: list[Summary] = []
    try:
        reporter.say(f"records go to {resolve_links(store.runs_folder(results))}")
        with stopwatch.time("machine and roofs"):
            environment = earlier.environment if earlier else describe_environment(plan, measure_roofs)
        path = earlier.path if earlier else store.new_path(results, plan.suite.name, environment)
        noise = MachineNoise(results, exclude=path)
        with run_folder() as folder, store.Writer(path, resume=earlier is not None) as writer:
            if earlier is None:
                writer.append(environment)
                invocation.keep(path)
            else:
                earlier = store.read(path)  # now that it is locked: another process may have added lines since
            reporter.start(plan.units(), f"suite {plan.suite.name}", _count_finished_units(plan, earlier))
            for block in _cases(plan, earlier, folder, noise, environment, reporter, stopwatch):
                writer.append(*block)
                summaries += [one for one in block if isinstance(one, Summary)]
    except KeyboardInterrupt:
        raise Interrupted(path if path is not None and path.exists() else invocation.last) from None
    known = {line.case: None for line in summaries}
    finished = [one for one in earlier.of(Summary) if one.case not in known] if earlier else []
    return Outcome(path, environment, in_order(finished + summaries, plan))


def in_order(summaries: Sequence[Summary], plan: RunPlan) -> list[Summary]:
    """Summaries in the order of the plan; of several for one row the last."""
    latest = {(line.case, line.backend): line for line in summaries}
    wanted = [(case.id, ref.label) for case, refs in plan.cases for ref in refs]
    return [latest[key] for key in wanted if key in latest]


def _cases(
    plan: RunPlan,
    earlier: store.Run | None,
    folder: Path,
    noise: MachineNoise,
    environment: Environment,
    reporter: Reporter,
    stopwatch: Stopwatch,
) -> Iterator[Sequence[Samples] | Sequence[Summary]]:
    """What to write, in blocks that belong together."""
    samples = earlier.of(Samples) if earlier else []
    complete = list_finished_cases(earlier) if earlier else set()
    seed = folder / "provisioned"
    seed.mkdir()
    provisioned: set[str] = set()
    references, exports = References(folder, plan.suite.timeouts.reference), _Exports(scratch_folder(folder, "exports"))
    for number, (case, refs) in enumerate(plan.cases, 1):
        if case.id in complete:
            continue
        # Only this case's reference: later ones would keep the compilers that provisioning runs from the processors.
        with references.prefetching(case if _is_possible(case, refs) else None) as finish:
            with stopwatch.time("once a machine"):
                provision(case, refs, seed, folder, provisioned, reporter)
            with stopwatch.time("reference"):
                finish()
        scratch = scratch_folder(folder, f"case_{number}")
        shutil.copytree(seed, scratch / "cache")
        is_repeated = exports.lend(case, scratch / "cache")
        done = [line for line in samples if line.case == case.id]
        lines: list[Samples] = []
        for part, members in enumerate(_divide(plan, case, refs, references, reporter, stopwatch)):
            first = part * plan.suite.generations
            cache = scratch / "cache"
            common = (references, reporter, stopwatch, done, first)
            work = CaseWork(case, members, plan.suite, scratch, cache, *common, states_phases=not is_repeated)
            yield from work.generations()
            lines += work.lines
        limits = _roofs(environment, case.device), _cache_bytes(environment, case.device)
        question = Question(case, refs, plan.baseline, plan.suite.same_within, *limits)
        found = summarise(question, lines, noise)
        yield found
        reporter.finished(case.id, number, len(plan.cases), found)
        exports.take_back(case, scratch / "cache")
        shutil.rmtree(scratch)


def list_finished_cases(run: store.Run) -> set[str]:
    """Cases that have a summary of every backend that the plan of the run names."""
    found: dict[str, set[str]] = {}
    for line in run.of(Summary):
        found.setdefault(line.case, set()).add(line.backend)
    planned = run.environment.plan.cases
    return {case for case, labels in found.items() if labels >= set(planned.get(case, labels))}


def _count_finished_units(plan: RunPlan, earlier: store.Run | None) -> int:
    """Worker processes of the cases that the run to resume has finished."""
    complete = list_finished_cases(earlier) if earlier else set()
    return sum(plan.workers(case, refs) for case, refs in plan.cases if case.id in complete)


def _divide(
    plan: RunPlan,
    case: Case,
    refs: Sequence[BackendRef],
    references: References,
    reporter: Reporter,
    stopwatch: Stopwatch,
) -> list[list[BackendRef]]:
    """The backends of a case by who takes turns with whom: as the plan says, otherwise as memory has room for."""
    planned = plan.parted(case, refs)
    if not _is_possible(case, refs):
        return planned
    reporter.doing(f"{case.id}  float64 reference")
    try:
        with stopwatch.time("reference"):
            weight_bytes = references.get(case)[0].weight_bytes
    except WorkerFailed:
        return planned  # each row will state the reason
    idle = [ref for ref in refs if checks.unavailable(case, ref)]
    parts = plan.parted(case, refs, room.count_that_fit(weight_bytes), idle)
    if len(parts) > len(planned):
        size = f"{len(refs) - len(idle)} processes with {weight_bytes / 1e9:.1f} GB of weights each"
        reporter.say(f"{case.id}: memory has no room for {size}, so the backends take turns in {len(parts)} parts")
        reporter.start((sum(map(len, parts)) - len(refs)) * plan.suite.generations, "further parts")
    return parts


def _is_possible(case: Case, refs: Sequence[BackendRef]) -> bool:
    """True if a backend can run the case here."""
    return not all(checks.unavailable(case, ref) for ref in refs)


class _Exports:
    """What backends exported in the case before: cases of one computation and device do not do it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of: tuple[str, str] | None = None

    def lend(self, case: Case, cache: Path) -> bool:
        """Move what was exported of the same computation into the cache of a case; False if there is none."""
        is_same = self._of == (case.computation, case.device)
        for path in self._folder.iterdir():
            if is_same:
                shutil.move(path, cache / path.name)
            else:
                shutil.rmtree(path)
        return is_same

    def take_back(self, case: Case, cache: Path) -> None:
        """Keep what a case has exported until the next one."""
        self._of = case.computation, case.device
        for path in cache.glob(f"{EXPORTS}*"):
            shutil.move(path, self._folder / path.name)


def describe_environment(plan: RunPlan, measure_roofs: Callable[[], Roofs] | None = None) -> Environment:
    """The first line of a run of `plan` that begins now."""
    threads = sorted({case.threads for case, _ in plan.cases})
    refs = {ref.label: ref for _, refs in plan.cases for ref in refs}
    names = sorted({case.device for case, _ in plan.cases})
    facts = machine.environment()
    return Environment(
        **facts,
        threads=threads,
        devices={label(name): _device_facts(name, with_roofs=measure_roofs is not None) for name in names},
        roofs=measure_roofs() if measure_roofs is not None else None,
        suite=plan.suite.name,
        plan_digest=plan.digest,
        plan=Plan.model_validate(plan.to_dict()),
        backends={name: backends.record(ref, facts["versions"]) for name, ref in refs.items()},
    )


def _device_facts(name: str, *, with_roofs: bool) -> dict[str, Any]:
    """What a device of the plan says of itself. Roofs of the cpu are `roofs` of the environment line."""
    found = device.load(name)
    missing = found.unavailable()
    if missing is not None:
        return {"unavailable": missing}
    roofs = found.roofs() if with_roofs and name != CPU else None
    return {**found.facts(), **({"roofs": roofs.to_dict()} if roofs is not None else {})}


def _roofs(environment: Environment, name: str) -> Roofs | None:
    """The roofs of a device that a run has recorded; None where it has none."""
    if name == CPU:
        return environment.roofs
    found = environment.devices.get(label(name), {}).get("roofs")
    return None if found is None else Roofs.from_dict(found)


def _cache_bytes(environment: Environment, name: str) -> int | None:
    """Size of the last cache of a device, where a run has recorded it."""
    found: int | None = environment.devices.get(label(name), {}).get("l2_bytes")
    return found
