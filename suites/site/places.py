"""Which stored measurement the site shows of each case on each machine, with the engine against all backends in it.

Times of different runs do not compare, so everything that is shown of a case comes from one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from suites.harness.judge.history import History
from suites.harness.judge.standing import Lead, Standing, get_column, judge_cases, lead_over
from suites.harness.judge.summary import judge_pair
from suites.harness.record import lookup
from suites.harness.record.collection import Collection
from suites.harness.record.schema import Compared, Samples, Summary
from suites.harness.record.store import Run


@dataclass(frozen=True)
class Place:
    """A case on one machine, as one run measured it.

    Attributes:
        run: the run.
        standing: the case.
        leads: label -> the engine against that backend, for every other backend that has a time.
        faults: label -> why its row is superseded; rows without a fault are left out.
    """

    run: Run
    standing: Standing
    leads: Mapping[str, Lead]
    faults: Mapping[str, str]

    @property
    def machine(self) -> str:
        """Machine of the run."""
        return self.run.environment.machine

    @property
    def row(self) -> Summary:
        """A row of the case, which says what the case is."""
        return next(iter(self.standing.rows.values()))


def choose_places(collection: Collection) -> list[Place]:
    """A measurement of every case on every machine, newest runs first.

    Of the runs in which the engine has a time, it is the newest one of those with the most competitors that have one: a
    comparison of two versions of the engine does not hide an earlier one with all competitors.
    """
    found: list[Place] = []
    machines: dict[str, list[Run]] = {}
    for run in collection.runs:
        machines.setdefault(run.environment.machine, []).append(run)
    for runs in machines.values():
        history = History.of_runs(runs)
        chosen: dict[str, tuple[int, Run, Standing]] = {}
        for run in runs:  # oldest first, so that a newer one replaces it
            for one in _judge_run(run):
                rivals = _count_rivals(one)
                if one.case not in chosen or rivals >= chosen[one.case][0]:
                    chosen[one.case] = rivals, run, one
        samples = _SamplesOfRuns()
        for _, run, one in chosen.values():
            leads = dict(_compare_with_engine(run, one, samples, history))
            reasons = {label: collection.faults.reason(run.name, row) for label, row in one.rows.items()}
            found.append(Place(run, one, leads, {label: text for label, text in reasons.items() if text}))
    return sorted(found, key=lambda place: place.run.name, reverse=True)


def _count_rivals(one: Standing) -> int:
    """How many competitors, not counting their forms, have a time beside the engine's."""
    if one.engine is None:
        return 0
    return len({get_column(row) for row in one.timed if row.role == "peer"})


def _judge_run(run: Run) -> Sequence[Standing]:
    return judge_cases(run.summaries()) if lookup.is_measurement(run) else ()


class _SamplesOfRuns:
    """Samples of runs by case and backend, each run indexed once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], list[Samples]]] = {}

    def find(self, run: Run, case: str, label: str) -> list[Samples]:
        """A line for each generation; of a generation that was stored twice, the last one."""
        if run.name not in self._known:
            latest = {(line.case, line.backend, line.generation): line for line in run.of(Samples)}
            index: dict[tuple[str, str], list[Samples]] = {}
            for key in sorted(latest):
                index.setdefault(key[:2], []).append(latest[key])
            self._known[run.name] = index
        return self._known[run.name].get((case, label), [])


def _compare_with_engine(
    run: Run, one: Standing, samples: _SamplesOfRuns, history: History
) -> Iterator[tuple[str, Lead]]:
    """Label -> the engine's lead over it. What the record says itself is taken from there."""
    engine = one.engine
    if engine is None:
        return
    mine = samples.find(run, one.case, engine.backend)
    floor = None if one.floor is None else math.log1p(one.floor)
    spread = history.spread(engine.threads, engine.device)
    for label, row in one.rows.items():
        if row.latency is None or label == engine.backend:
            continue
        if one.lead is not None and one.lead.other == label:
            yield label, one.lead
            continue
        theirs = samples.find(run, one.case, label)
        compared = Compared(backend=label, **judge_pair(mine, theirs, spread, floor, run.environment.plan.same_within))
        lead = lead_over(compared)
        if lead is not None:
            yield label, lead
