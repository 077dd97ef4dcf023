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
from suites.harness.run import checks, memory
from suites.harness.run.casework import CaseWork
from suites.harness.run.plan import RunPlan
from suites.harness.run.provision import provision
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import EXPORTS, WorkerFailed, run_folder, scratch_folder


@dataclass(frozen=True)
class Outcome:
    """A finished run: its file, the first line of it, and its summaries."""

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
    """Ctrl-C during a run. `path` is the last file that holds what was stored; None if nothing was."""

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
) -> Outcome:
    """Measure every case of `plan` into one file under `results`.

    Args:
        plan: what to do.
        results: the results folder.
        reporter: told what happens.
        invocation: has the record to continue, if there is one; otherwise it keeps its arguments beside the new one.
        measure_roofs: called when a run starts; without, the run has no roofs and its rows no share of them.

    Raises:
        UsageError: the record to continue is of another plan, or another process is writing to it.
        Interrupted: on Ctrl-C; everything measured so far is stored.
    """
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
        environment = earlier.environment if earlier else describe_environment(plan, measure_roofs)
        path = earlier.path if earlier else store.new_path(results, plan.suite.name, environment)
        noise = MachineNoise(results, exclude=path)
        with run_folder() as folder, store.Writer(path, resume=earlier is not None) as writer:
            if earlier is None:
                writer.append(environment)
                invocation.keep(path)
            else:
                earlier = store.read(path)  # now that it is locked: another process may have added lines since
            complete = _list_finished_cases(earlier)
            finished_units = sum(plan.workers(case, refs) for case, refs in plan.cases if case.id in complete)
            reporter.start(plan.units(), f"suite {plan.suite.name}", finished_units)
            for block in _cases(plan, earlier, folder, noise, environment, reporter):
                writer.append(*block)
                summaries += [line for line in block if isinstance(line, Summary)]
    except KeyboardInterrupt:
        raise Interrupted(path if path is not None and path.exists() else invocation.last) from None
    latest = {(line.case, line.backend): line for line in [*(earlier.of(Summary) if earlier else []), *summaries]}
    wanted = [(case.id, ref.label) for case, refs in plan.cases for ref in refs]
    return Outcome(path, environment, [latest[key] for key in wanted if key in latest])


def _cases(
    plan: RunPlan,
    earlier: store.Run | None,
    folder: Path,
    noise: MachineNoise,
    environment: Environment,
    reporter: Reporter,
) -> Iterator[Sequence[Samples] | Sequence[Summary]]:
    """What to write, in blocks that belong together."""
    samples = earlier.of(Samples) if earlier else []
    complete = _list_finished_cases(earlier)
    seed = folder / "provisioned"
    seed.mkdir()
    provisioned: set[str] = set()
    references, exports = References(folder, plan.suite.timeouts.reference), _Exports(scratch_folder(folder, "exports"))
    for number, (case, refs) in enumerate(plan.cases, 1):
        if case.id in complete:
            continue
        # Only this case's reference: later ones would keep the compilers that provisioning runs from the processors.
        with references.prefetching(case if _is_possible(case, refs) else None):
            provision(case, refs, seed, folder, provisioned, reporter)
        scratch = scratch_folder(folder, f"case_{number}")
        cache = scratch / "cache"
        shutil.copytree(seed, cache)
        is_repeated = exports.lend(case, cache)
        done = [line for line in samples if line.case == case.id]
        lines: list[Samples] = []
        for part, members in enumerate(_divide(plan, case, refs, references, reporter)):
            first = part * plan.suite.generations
            common = (references, reporter, done, first)
            work = CaseWork(case, members, plan.suite, scratch, cache, *common, states_phases=not is_repeated)
            yield from work.generations()
            lines += work.lines
        cache_bytes = environment.devices.get(label(case.device), {}).get("l2_bytes")
        limits = _roofs(environment, case.device), cache_bytes
        question = Question(case, refs, plan.baseline, plan.suite.same_within, *limits)
        summaries = summarise(question, lines, noise)
        yield summaries
        reporter.finished(case.id, number, len(plan.cases), summaries)
        exports.take_back(case, cache)
        shutil.rmtree(scratch)


def _list_finished_cases(run: store.Run | None) -> set[str]:
    """Cases that have a summary of every backend that the plan of the run names."""
    if run is None:
        return set()
    labels: dict[str, set[str]] = {}
    for line in run.of(Summary):
        labels.setdefault(line.case, set()).add(line.backend)
    planned = run.environment.plan.cases
    return {case for case, known in labels.items() if known >= set(planned.get(case, known))}


def _divide(
    plan: RunPlan,
    case: Case,
    refs: Sequence[BackendRef],
    references: References,
    reporter: Reporter,
) -> list[list[BackendRef]]:
    """The backends of a case by who takes turns with whom: as the plan says, otherwise as many as fit into memory."""
    planned = plan.parted(case, refs)
    if not _is_possible(case, refs):
        return planned
    reporter.doing(f"{case.id}  float64 reference")
    try:
        weight_bytes = references.get(case)[0].weight_bytes
    except WorkerFailed:
        return planned  # each row will state the reason
    idle = [ref for ref in refs if checks.unavailable(case, ref)]
    parts = plan.parted(case, refs, memory.count_that_fit(weight_bytes), idle)
    if len(parts) > len(planned):
        size = f"{len(refs) - len(idle)} processes with {weight_bytes / 1e9:.1f} GB of weights each"
        reporter.say(f"{case.id}: {size} do not fit into memory, so the backends take turns in {len(parts)} parts")
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
    precisions = {case.precision for case, _ in plan.cases}
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
        backends={name: backends.record(ref, facts["versions"], precisions) for name, ref in refs.items()},
    )


def _device_facts(name: str, *, with_roofs: bool) -> dict[str, Any]:
    """What a device of the plan says of itself. Roofs of the cpu are `roofs` of the environment line."""
    made = device.load(name)
    missing = made.unavailable()
    if missing is not None:
        return {"unavailable": missing}
    roofs = made.roofs() if with_roofs and name != CPU else None
    return {**made.facts(), **({"roofs": roofs.to_dict()} if roofs is not None else {})}


def _roofs(environment: Environment, name: str) -> Roofs | None:
    """The roofs of a device that a run has recorded; None where it has none."""
    if name == CPU:
        return environment.roofs
    recorded = environment.devices.get(label(name), {}).get("roofs")
    return None if recorded is None else Roofs.from_dict(recorded)
