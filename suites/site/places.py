"""Which stored measurement the site shows of each case on each machine, with the engine against all backends in it.

Times of different runs do not compare, so everything that is shown of a case comes from one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suites.harness.judge import stats
from suites.harness.judge.judged_case import JudgedCase, Lead, get_column, judge_cases, lead_over
from suites.harness.judge.machine_noise import RUNS_READ, MachineNoise, PairMedian, read_pair_medians
from suites.harness.judge.summary import judge_pair
from suites.harness.record import lookup
from suites.harness.record.collection import Collection
from suites.harness.record.schema import Compared, Samples, Speed, Summary, Verdict
from suites.harness.record.store import Run


@dataclass(frozen=True)
class Place:
    """A case on one machine, as one run measured it.

    Attributes:
        run: the run.
        judged: the case.
        leads: label -> the engine against that backend, for every other backend that has a time.
        faults: label -> why its row is superseded; rows without a fault are left out.
    """

    run: Run
    judged: JudgedCase
    leads: Mapping[str, Lead]
    faults: Mapping[str, str]

    @property
    def machine(self) -> str:
        """Machine of the run."""
        return self.run.environment.machine

    @property
    def row(self) -> Summary:
        """A row of the case, which says what the case is."""
        return next(iter(self.judged.rows.values()))


def describe_run(run: Run) -> dict[str, Any]:
    """Which run measured what is shown."""
    return {
        "machine": run.environment.machine,
        "run": run.name,
        "date": f"{run.started:%Y-%m-%d}" if run.started is not None else "",
        "commit": run.environment.commit,
        "dirty": bool(run.environment.dirty),
    }


def choose_places(collection: Collection) -> list[Place]:
    """A measurement of every case on every machine, newest runs first.

    Of the runs in which the engine has a time, it is the newest one of those with the most other backends that have
    one: a comparison of two versions of the engine does not hide an earlier one with all backends.
    """
    found: list[Place] = []
    machines: dict[str, list[Run]] = {}
    for run in collection.runs:
        machines.setdefault(run.environment.machine, []).append(run)
    for runs in machines.values():
        chosen: dict[str, tuple[int, Run, JudgedCase]] = {}
        for run in runs:  # oldest first, so that a newer one replaces it
            for one in judge_cases(run.summaries()) if lookup.is_measurement(run) else ():
                peers = {get_column(row) for row in one.timed if row.role == "peer"}
                rivals = 0 if one.engine is None else len(peers)
                if one.case not in chosen or rivals >= chosen[one.case][0]:
                    chosen[one.case] = rivals, run, one
        samples, knowledge = SamplesOfRuns(), _Knowledge(runs)
        for _, run, one in chosen.values():
            leads = dict(_compare_with_engine(run, one, samples, knowledge))
            reasons = {label: collection.faults.reason(run.name, row) for label, row in one.rows.items()}
            found.append(Place(run, one, leads, {label: text for label, text in reasons.items() if text}))
    return sorted(found, key=lambda place: place.run.name, reverse=True)


class SamplesOfRuns:
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


class _Knowledge:
    """What was known of the variance between processes when a case of a run was judged.

    Args:
        runs: those of one machine, oldest first.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._places = {run.name: number for number, run in enumerate(runs)}
        self._medians: dict[str, list[PairMedian]] = {}

    def find_spread(self, run: Run, row: Summary) -> stats.Spread:
        """From the A/A pairs of earlier runs, and of the run itself up to the case of `row`."""
        number = self._places[run.name]
        earlier = self._runs[max(0, number - RUNS_READ) : number]
        mine = self._read(run)
        last = max((index for index, one in enumerate(mine) if one.case == row.case), default=len(mine) - 1)
        noise = MachineNoise()
        for one in (*(pair for other in earlier for pair in self._read(other)), *mine[: last + 1]):
            noise.add(one.threads, [one.value], one.place)
        return noise.spread(row.threads, row.device)

    def _read(self, run: Run) -> list[PairMedian]:
        if run.name not in self._medians:
            self._medians[run.name] = list(read_pair_medians(run))
        return self._medians[run.name]


def _compare_with_engine(
    run: Run, one: JudgedCase, samples: SamplesOfRuns, knowledge: _Knowledge
) -> Iterator[tuple[str, Lead]]:
    """Label -> the engine's lead over it. What the record says itself is taken from there."""
    engine = one.engine
    if engine is None:
        return
    recorded = _read_comparisons(engine)
    floor = None if one.floor is None else math.log1p(one.floor)
    spread: stats.Spread | None = None
    for label, row in one.rows.items():
        if row.latency is None or label == engine.backend:
            continue
        compared = recorded.get(label) or _turn_around(row, engine.backend)
        if compared is None:
            spread = spread or knowledge.find_spread(run, engine)
            mine, theirs = (samples.find(run, one.case, name) for name in (engine.backend, label))
            judged = judge_pair(mine, theirs, spread, floor, run.environment.plan.same_within)
            compared = Compared(backend=label, **judged)
        if (lead := lead_over(compared)) is not None:
            yield label, lead


def _read_comparisons(engine: Summary) -> dict[str, Compared]:
    """Label -> the engine over that backend, as the row of the engine says it."""
    base = Compared(backend=engine.baseline, speed=engine.speed, verdict=engine.verdict, detectable=engine.detectable)
    found = [base, engine.runner_up, *(engine.versions or []), engine.best_peer]
    return {one.backend: one for one in found if one is not None and one.speed is not None}


_TURNED: Mapping[Verdict, Verdict] = {"faster": "slower", "slower": "faster", "same": "same", "unclear": "unclear"}


def _turn_around(row: Summary, engine: str) -> Compared | None:
    """The engine over the backend of a row whose speed is against the engine; None for other rows."""
    if row.baseline != engine or row.speed is None or row.verdict is None:
        return None
    speed = Speed(1 / row.speed.value, 1 / row.speed.high, 1 / row.speed.low)
    return Compared(backend=row.backend, speed=speed, verdict=_TURNED[row.verdict], detectable=row.detectable)
