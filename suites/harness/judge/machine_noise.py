"""What this machine's own A/A pairs say about the variance between processes. Reads runs; writes nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from suites.harness.declare.device import CPU
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.record import store
from suites.harness.record.schema import Samples, Summary

RUNS_READ = 30
"""Newest runs that are looked at: a machine's noise drifts as its neighbours and its software change."""


@dataclass(frozen=True)
class PairMedian:
    """Median log-speed of the A/A pair of a case in one generation."""

    case: str
    threads: int
    place: str
    value: float


class MachineNoise:
    """How much two identical copies differ on a machine: A/A medians by thread count and device.

    Most are read from earlier runs; the current run adds its own.

    Args:
        results: the results folder.
        exclude: a file that is not an earlier run: the run that is being resumed.
    """

    def __init__(self, results: Path | None = None, exclude: Path | None = None) -> None:
        self._medians: dict[tuple[int, str], list[float]] = {}
        files = store.run_files(results)[-RUNS_READ:] if results is not None else []
        for path in files:
            if path == exclude:
                continue
            try:
                self._read(store.read(path))
            except UsageError:
                continue  # a damaged or newer file says nothing here; `enginebench list runs` shows it

    @classmethod
    def of_runs(cls, runs: Iterable[store.Run]) -> MachineNoise:
        """What runs of one machine say, oldest first; only the newest `RUNS_READ` count."""
        found = cls()
        for run in list(runs)[-RUNS_READ:]:
            found._read(run)
        return found

    def add(self, threads: int, medians: Iterable[float], place: str = CPU) -> None:
        """Note the per-generation medians of an A/A pair of a case with `threads` threads on device `place`."""
        self._medians.setdefault((threads, place), []).extend(medians)

    def spread(self, threads: int, place: str = CPU) -> stats.Spread:
        """What is known for cases with `threads` threads on device `place`."""
        return stats.spread_of(self._medians.get((threads, place), []))

    def _read(self, run: store.Run) -> None:
        for one in read_pair_medians(run):
            self.add(one.threads, [one.value], one.place)


def read_pair_medians(run: store.Run) -> Iterator[PairMedian]:
    """What the A/A pairs of a run show, in the order in which its cases were measured."""
    pairs: dict[tuple[str, int], dict[str, stats.Rounds]] = {}
    baseline = run.environment.plan.baseline
    for line in run.of(Samples):
        if line.backend in (baseline, f"{baseline}#2"):
            pairs.setdefault((line.case, line.generation), {})[line.backend] = line.seconds
    kinds = {line.case: (line.threads, line.device) for line in run.of(Summary)}
    for (case, _), seconds in pairs.items():
        if len(seconds) == 2 and case in kinds:
            values = stats.log_speeds(seconds[f"{baseline}#2"], seconds[baseline])
            if values:
                threads, place = kinds[case]
                yield PairMedian(case, threads, place, statistics.median(values))
