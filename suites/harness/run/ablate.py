"""Running an ablation: what does each program look like, which differ, and how do those compare in time.

facts (no timing) ──▶ trials ──▶ the reached ones, in parts ──▶ run ──▶ ablation lines
                                 └─▶ the strongest, in pairs ──▶ run ──▶ more of them
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.suggest import unknown_of_many
from suites import backends
from suites.backends import versions
from suites.backends.base import BackendSwitch
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite
from suites.harness.errors import UsageError
from suites.harness.judge import ablation
from suites.harness.judge.ablation import MODES, Ablation, Facts, Trial
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import log_speeds
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import HARMLESS, AblationRecord, Environment, Samples
from suites.harness.run import memory, runner
from suites.harness.run.counts import count_case
from suites.harness.run.plan import RunPlan, describe_duration, with_twin
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import run_folder, scratch_folder

MOST_TOGETHER, LEAST_TOGETHER = 8, 5
"""Processes that take turns with each other: at most, and what a pair of switches needs."""
_PAIRS = "_pairs"
"""End of the name of a run of pairs."""
_HINT = ". A pass of your own has a switch if it runs in the program: --backend engine[passes=FILE.py:FUNCTION]"

Pairs = Sequence[tuple[BackendSwitch, BackendSwitch, dict[str, str]]]
"""Two switches, and the options that leave both out."""


@dataclass(frozen=True)
class Request:
    """What is to be taken apart.

    Attributes:
        suite: rounds, generations, time limits; its name is that of the stored run.
        cases: on what.
        ablation: what.
        modes: how, of `ablation.MODES`.
        pairs: how many of the strongest switches are tried two at a time; 0: none.
    """

    suite: Suite
    cases: Sequence[Case]
    ablation: Ablation
    modes: Sequence[str] = MODES
    pairs: int = 0


@dataclass(frozen=True)
class Outcome:
    """A finished ablation.

    Attributes:
        paths: the stored runs: of single switches, and of pairs where there are any.
        environment: the first line of the first.
        lines: `ablation` lines.
        samples: of all runs.
    """

    paths: Sequence[Path]
    environment: Environment
    lines: Sequence[AblationRecord]
    samples: Sequence[Samples] = ()

    @property
    def succeeded(self) -> bool:
        """True where every program that makes sense could be made, was right and could be timed."""
        return all(line.status in HARMLESS for line in self.lines)


def of_backend(label: str, switches: Sequence[str] | None = None) -> Ablation:
    """How the backend of that label is taken apart.

    Args:
        label: such as ``engine`` or ``onnxruntime[level=extended]``, which then is the whole.
        switches: names of switches, or of kinds of them; None or empty: the usual ones. A kind means its usual
            switches, or all of them if none is usual.

    Raises:
        UsageError: an unknown name, a backend that cannot run here, or one that has no switches.
    """
    base = BackendRef.parse(versions.resolve(label, Path.cwd()))
    backends.check(base)
    missing = backends.unavailable(base)
    declared = [] if missing else list(backends.switches(base))
    if not declared:
        reason = missing or "it has no switches; `enginebench list switches` names backends that have some"
        raise UsageError(f"backend {base.name}: {reason}")
    known = dict.fromkeys([switch.name for switch in declared] + [switch.kind for switch in declared])
    wanted = switches or [switch.name for switch in declared if switch.usual]
    for name in wanted:
        if name not in known:
            hint = "" if backends.role(base) == "peer" else _HINT
            raise UsageError(f"--switches: {unknown_of_many('switch', name, known, 'enginebench list switches')}{hint}")
    usual = {switch.kind for switch in declared if switch.usual}
    chosen = [
        switch
        for switch in declared
        if switch.name in wanted or (switch.kind in wanted and (switch.usual or switch.kind not in usual))
    ]
    backend = backends.load(base)
    return Ablation(base, chosen, backend.bare(), backend.lists)


def run(request: Request, results: Path, reporter: Reporter, invocation: Invocation | None = None) -> Outcome:
    """Find which programs differ, time those, store and judge. Arguments and errors as of `runner.run`."""
    invocation = invocation or Invocation()
    try:
        with run_folder() as folder:
            programs = {case.id: _Programs(request, case, folder, reporter) for case in request.cases}
            singles = {case.id: programs[case.id].singles() for case in request.cases}
            first = _timed(request, request.suite.name, singles, programs, results, reporter, invocation)
            pairs: dict[str, list[Trial]] = {}
            for case in request.cases if request.pairs else ():
                names = ablation.strongest([line for line in first.lines if line.case == case.id], request.pairs)
                pairs[case.id] = programs[case.id].pairs(names)
                if not pairs[case.id]:
                    reporter.say(
                        f"{case.id}: no pairs, because no two switches that were timed can be left out together"
                    )
            if not any(pairs.values()):
                return first
            second = _timed(request, f"{request.suite.name}{_PAIRS}", pairs, programs, results, reporter, invocation)
    except KeyboardInterrupt:
        raise runner.Interrupted(invocation.last) from None
    return Outcome(
        [*first.paths, *second.paths],
        first.environment,
        [*first.lines, *second.lines],
        [*first.samples, *second.samples],
    )


class _Programs:
    """What one case's programs look like: a worker makes them one after the other."""

    def __init__(self, request: Request, case: Case, folder: Path, reporter: Reporter) -> None:
        self._request = request
        self._case = case
        self._folder = scratch_folder(folder, f"facts_{len(list(folder.iterdir()))}")
        self._reporter = reporter
        self._facts: dict[str, Facts] = {}

    def singles(self) -> list[Trial]:
        """Every switch in every mode."""
        how = self._request.ablation
        self._count(how.asked(self._request.modes))
        return how.trials(self._request.modes, self._facts)

    def pairs(self, names: Sequence[str]) -> list[Trial]:
        """Every two of the named switches that can be left out together."""
        how = self._request.ablation
        pairs = how.pairs(names)
        self._count(_list_programs(how, pairs))
        return [how.pair_trial(first, second, options, self._facts) for first, second, options in pairs]

    @property
    def together(self) -> int:
        """How many processes fit into memory."""
        weights = max((facts.get("weight_bytes") or 0 for facts in self._facts.values()), default=0)
        fit = memory.count_that_fit(weights)
        return MOST_TOGETHER if fit is None else max(LEAST_TOGETHER, min(MOST_TOGETHER, fit))

    def _count(self, wanted: Sequence[Mapping[str, str]]) -> None:
        how, timeouts = self._request.ablation, self._request.suite.timeouts
        refs = {how.ref(options).label: how.ref(options) for options in wanted}
        missing = [ref for label, ref in refs.items() if label not in self._facts]
        scratch = scratch_folder(self._folder, f"worker_{len(self._facts)}")
        for ref, counted in count_case(self._case, missing, scratch, self._folder, timeouts, self._reporter):
            if counted.facts is not None:
                self._facts[ref.label] = counted.facts.model_dump()
                continue
            # Without the whole program there is nothing to take apart.
            has_failed = ref == how.base and counted.status in HARMLESS
            self._facts[ref.label] = ablation.refused("failed" if has_failed else counted.status, str(counted.reason))


def _list_programs(how: Ablation, pairs: Pairs) -> list[Mapping[str, str]]:
    """Options of the programs that judging `pairs` needs: without either of the two switches, and without both."""
    singles = [how.options(switch.without) or {} for first, second, _ in pairs for switch in (first, second)]
    return [*singles, *(options for _, _, options in pairs)]


def _timed(
    request: Request,
    name: str,
    trials: Mapping[str, Sequence[Trial]],
    programs: Mapping[str, _Programs],
    results: Path,
    reporter: Reporter,
    invocation: Invocation,
) -> Outcome:
    """Time the trials that were reached into one file, and judge all of them."""
    plan = _plan(request, name, trials, {case: made.together for case, made in programs.items()})
    if not invocation.earlier:
        seconds, basis = plan.estimate(results)
        reporter.say(f"{name}: {plan.units()} worker processes, about {describe_duration(seconds)} ({basis})")
    path = runner.run(plan, results, reporter, invocation=invocation).path
    stored, noise = store.read(path), MachineNoise(results, exclude=path)
    if known := stored.of(AblationRecord):
        return Outcome([path], stored.environment, known, stored.of(Samples))
    lines: list[AblationRecord] = []
    for case in request.cases:
        samples = [line for line in stored.of(Samples) if line.case == case.id]
        base = request.ablation.base
        own = [[line for line in samples if line.backend == ref.label] for ref in (base.again(), base)]
        noise.add(case.threads, [statistics.median(values) for values in log_speeds(*own)])
        spread = noise.spread(case.threads)
        floor = ablation.floor_of(samples, base, spread)
        lines += ablation.judge(case, trials[case.id], samples, spread, floor, request.suite.same_within)
    lines = ablation.conclude(lines)
    with store.Writer(path, resume=True) as writer:
        writer.append(*lines)
    return Outcome([path], stored.environment, lines, stored.of(Samples))


def plan_most(request: Request) -> list[RunPlan]:
    """What would be timed if every switch changed the program: the single switches, then the pairs if there are any."""
    how = request.ablation
    pairs = list_most_pairs(request)
    suite = request.suite.model_copy(update={"baseline": how.base.label, "backends": [how.base.label]})
    plans = []
    for programs in (how.asked(request.modes), _list_programs(how, pairs)):
        if programs:
            refs = {how.ref(options).label: how.ref(options) for options in programs}
            whole = with_twin(list(refs.values()), how.base.label)
            plans.append(RunPlan(suite, [(case, whole) for case in request.cases]))
    return plans


def list_most_pairs(request: Request) -> Pairs:
    """As many pairs as may be timed of a case. Which ones is known only once the single switches have times."""
    most = request.pairs * (request.pairs - 1) // 2
    return request.ablation.pairs([switch.name for switch in request.ablation.switches])[:most]


def _find_ref(label: str, base: BackendRef) -> BackendRef:
    """The backend of a label, which names no folder, with the paths that `base` has."""
    ref = BackendRef.parse(label)
    known = {key: base.options[key] for key, value in base.named_options.items() if ref.options.get(key) == value}
    return replace(ref, name=base.name, options={**ref.options, **known})


def _plan(request: Request, name: str, trials: Mapping[str, Sequence[Trial]], together: Mapping[str, int]) -> RunPlan:
    base = request.ablation.base
    suite = request.suite.model_copy(update={"name": name, "baseline": base.label, "backends": [base.label]})
    cases, parts = [], {}
    for case in request.cases:
        reached = [trial for trial in trials[case.id] if trial.reached]
        if reached:
            parts[case.id] = ablation.parts(request.ablation, reached, together[case.id])
            labels = dict.fromkeys(label for part in parts[case.id] for label in part)
            cases.append((case, [_find_ref(label, base) for label in labels]))
    return RunPlan(suite, cases, parts)
