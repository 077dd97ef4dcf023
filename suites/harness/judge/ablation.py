"""What an ablation compares, and what its samples say: pure functions. Starts no process and knows no file.

A *trial* is two programs that differ in one switch. Its speed is that of the program with the switch against the one
without it. A switch that names a value (``level=basic``) is on in the program with that value:

- ``leave_one_out``: everything on, against everything but the switch; or with the value, against the usual one;
- ``add_one_in``: nothing but the switch on, against nothing;
- ``pair``: two switches, by what both earn together over what each earns alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from suites.backends.base import BackendSwitch
from suites.harness.declare.case import BackendRef, Case
from suites.harness.judge import stats
from suites.harness.judge.standing import SURE
from suites.harness.judge.summary import log_speeds
from suites.harness.record.facts import columns
from suites.harness.record.schema import AblationRecord, Samples, Status

Mode = Literal["leave_one_out", "add_one_in", "pair"]
LEAVE_ONE_OUT: Literal["leave_one_out"] = "leave_one_out"
ADD_ONE_IN: Literal["add_one_in"] = "add_one_in"
PAIR: Literal["pair"] = "pair"
MODES: tuple[Mode, ...] = (LEAVE_ONE_OUT, ADD_ONE_IN)
"""How a trial changes a switch."""

ALL = "(everything)"
"""The switch that stands for all that can be on alone."""

DELTAS = columns("counted")
"""What is counted, with a switch and without it."""

Facts = Mapping[str, Any]
"""What a backend tells of a program; of one that could not be made, what `refused` gives."""


def refused(status: Status, reason: str) -> Facts:
    """Facts of a program that could not be made: the status of its trials, and why."""
    return {"refused": (status, reason)}


@dataclass(frozen=True)
class Trial:
    """One change of a switch.

    Attributes:
        kind, switch: of the `BackendSwitch`; of a pair both names, joined by ``+``.
        mode: one of `MODES`, or `PAIR`.
        on, off: labels of the backend with the switch, or the value that it names, and without it; of a pair, with
            both and with neither.
        first, second: of a pair, labels of the backend with only one of the two on.
        facts_on, facts_off: facts of the two programs.
    """

    kind: str
    switch: str
    mode: Mode
    on: str
    off: str
    facts_on: Facts
    facts_off: Facts
    first: str = ""
    second: str = ""

    @property
    def refused(self) -> tuple[Status, str] | None:
        """Status and reason if one of the programs could not be made."""
        found: tuple[Status, str] | None = self.facts_on.get("refused") or self.facts_off.get("refused")
        return found

    @property
    def reached(self) -> bool:
        """False where the two programs are one: the switch changed nothing, and there is nothing to time."""
        digests = self.facts_on.get("run_digest"), self.facts_off.get("run_digest")
        return self.refused is None and (None in digests or digests[0] != digests[1])

    @property
    def deltas(self) -> dict[str, tuple[Any, Any]]:
        """Column -> [with the switch, without it], where the two differ."""
        pairs = {name: (self.facts_on.get(name), self.facts_off.get(name)) for name in DELTAS}
        return {name: pair for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}

    @property
    def labels(self) -> list[str]:
        """Every program that has to be timed."""
        return [label for label in (self.on, self.off, self.first, self.second) if label]


@dataclass(frozen=True)
class Ablation:
    """A backend, and the options that change its switches.

    Attributes:
        base: the backend, whole.
        switches: its switches, those that take part.
        bare: options that switch everything off; None where there is no such thing.
        lists: options whose values are joined where two switches set both.
    """

    base: BackendRef
    switches: Sequence[BackendSwitch]
    bare: Mapping[str, str] | None
    lists: Sequence[str]

    def options(self, *changes: Mapping[str, str]) -> dict[str, str] | None:
        """The options of the whole with all of `changes`; None where two of them exclude each other."""
        found = dict(self.base.options)
        changed: set[str] = set()
        for change in changes:
            for key, value in change.items():
                if key in self.lists and key in found:
                    found[key] = f"{found[key]}+{value}"
                elif key in changed and found[key] != value:
                    return None
                else:
                    found[key] = value
                changed.add(key)
        return found

    def ref(self, options: Mapping[str, str]) -> BackendRef:
        """The backend with `options`."""
        return replace(self.base, options=options)

    def asked(self, modes: Iterable[str]) -> list[dict[str, str]]:
        """Options of every program whose facts are needed, each once; the whole first."""
        bare = [self.bare] if self.bare is not None else []
        found: list[Mapping[str, str] | None] = [self.base.options, *bare]
        if LEAVE_ONE_OUT in modes:
            found += [self.options(switch.without) for switch in self.switches]
        if ADD_ONE_IN in modes and bare:
            found += [switch.alone for switch in self.switches]
        return [dict(one) for number, one in enumerate(found) if one is not None and one not in found[:number]]

    def trials(self, modes: Iterable[str], facts: Mapping[str, Facts]) -> list[Trial]:
        """Every switch in each of `modes`; `facts` has those of each label."""
        whole, found = self.base.label, []
        if self.bare is not None:
            found.append(
                self._trial(BackendSwitch("all", ALL, {}), LEAVE_ONE_OUT, whole, self.ref(self.bare).label, facts)
            )
        for switch in self.switches:
            without = self.options(switch.without)
            if LEAVE_ONE_OUT in modes and without is not None:
                changed = self.ref(without).label
                on, off = (changed, whole) if switch.is_value else (whole, changed)
                found.append(self._trial(switch, LEAVE_ONE_OUT, on, off, facts))
            if ADD_ONE_IN in modes and self.bare is not None and switch.alone is not None:
                on, off = self.ref(switch.alone).label, self.ref(self.bare).label
                found.append(self._trial(switch, ADD_ONE_IN, on, off, facts))
        return found

    def pairs(self, names: Sequence[str]) -> list[tuple[BackendSwitch, BackendSwitch, dict[str, str]]]:
        """Every two of the named switches that can be left out together, with the options that leave both out."""
        switches = [switch for switch in self.switches if switch.name in names]
        both = [
            (one, other, self.options(one.without, other.without)) for one, other in itertools.combinations(switches, 2)
        ]
        return [(one, other, options) for one, other, options in both if options is not None]

    def pair_trial(
        self, one: BackendSwitch, other: BackendSwitch, options: Mapping[str, str], facts: Mapping[str, Facts]
    ) -> Trial:
        """Two switches together."""
        singles = [self.ref(self.options(switch.without) or {}).label for switch in (other, one)]
        switch = BackendSwitch("pair", f"{one.name}+{other.name}", {})
        found = self._trial(switch, PAIR, self.base.label, self.ref(options).label, facts)
        return replace(found, first=singles[0], second=singles[1])

    def _trial(self, switch: BackendSwitch, mode: Mode, on: str, off: str, facts: Mapping[str, Facts]) -> Trial:
        return Trial(switch.kind, switch.name, mode, on, off, facts[on], facts[off])


def parts(ablation: Ablation, trials: Sequence[Trial], size: int) -> list[list[str]]:
    """Labels that take turns with each other: every trial within one part, the whole and its second copy in each.

    Args:
        ablation: whose whole it is.
        trials: what is to be timed.
        size: labels of a part at most, where a single trial does not need more.
    """
    always = [ablation.base.label, ablation.base.again().label]
    found: list[list[str]] = []
    for trial in trials:
        missing = [label for label in trial.labels if label not in always]
        home = next((part for part in found if len({*part, *missing}) <= size), None)
        if home is None:
            home = list(always)
            found.append(home)
        home += [label for label in missing if label not in home]
    return found


def judge(
    case: Case,
    trials: Sequence[Trial],
    samples: Sequence[Samples],
    spread: stats.Spread,
    floor: float,
    same_within: float,
) -> list[AblationRecord]:
    """One line a trial, p values not yet raised; see `conclude`.

    Args:
        case: what was measured.
        trials: all of them, those that were not reached too.
        samples: `samples` lines of the case.
        spread: of a log-speed between generations.
        floor: of the A/A pair, as a log-speed.
        same_within: see `stats.verdict`.
    """
    return [_line(case, trial, samples, spread, floor, same_within) for trial in trials]


def _line(
    case: Case, trial: Trial, samples: Sequence[Samples], spread: stats.Spread, floor: float, same_within: float
) -> AblationRecord:
    bad = _bad(trial, samples)
    line = AblationRecord(
        case=case.id,
        switch=trial.switch,
        switch_kind=trial.kind,
        mode=trial.mode,
        reached=trial.reached,
        status="ok" if bad is None else bad[0],
        reason=None if bad is None else bad[1],
        with_=trial.on,
        without=trial.off,
        floor=math.expm1(floor) if floor else None,
        deltas=trial.deltas,
    )
    logs = _interactions(trial, samples) if trial.mode == PAIR else log_speeds(*_of(samples, trial.on, trial.off))
    if bad is not None or not trial.reached or not logs:
        return line
    if trial.mode == PAIR:  # two log-speeds, of processes of their own
        spread, floor = replace(spread, variance=2 * spread.variance), math.sqrt(2) * floor
    found = stats.estimate(logs, spread)
    line.speed, line.p = stats.interval(found), stats.p_value(found)
    line.verdict = stats.verdict(line.speed, same_within, floor)
    line.detectable = math.expm1(stats.detectable(found, floor))
    return line


def conclude(lines: Sequence[AblationRecord]) -> list[AblationRecord]:
    """The same lines with p values raised by Holm's rule over all that were timed at once, and verdicts that stand it.

    Pairs are a family of their own: they are chosen by what the single switches showed.
    """
    found = [line.model_copy() for line in lines]
    for family in (MODES, (PAIR,)):
        timed = [(line, line.p) for line in found if line.mode in family and line.p is not None]
        for (line, _), p in zip(timed, stats.holm([p for _, p in timed]), strict=True):
            line.p = p
            if p >= 1 - stats.CONFIDENCE and line.verdict in SURE:
                line.verdict = "unclear"
    return found


def strongest(lines: Iterable[AblationRecord], count: int) -> list[str]:
    """Names of the switches that move time most, left out or added in, by the largest speed that a case shows."""
    moves: dict[str, float] = {}
    for line in lines:
        if line.speed is not None and line.mode in MODES and line.switch != ALL:
            moves[line.switch] = max(moves.get(line.switch, 0.0), abs(math.log(line.speed.value)))
    return sorted(moves, key=lambda name: -moves[name])[:count]


def floor_of(samples: Sequence[Samples], base: BackendRef, spread: stats.Spread) -> float:
    """The A/A floor of the whole and its second copy; 0 where the two have no rounds."""
    logs = log_speeds(*_of(samples, base.again().label, base.label))
    return stats.floor_of(stats.speed(logs, spread)) if logs else 0.0


def _bad(trial: Trial, samples: Sequence[Samples]) -> tuple[Status, str] | None:
    if trial.refused is not None:
        return trial.refused
    wrong = [line for line in samples if line.backend in trial.labels and line.status != "ok"]
    return (wrong[0].status, f"{wrong[0].backend}: {wrong[0].reason}") if wrong and trial.reached else None


def _of(samples: Sequence[Samples], *labels: str) -> list[list[Samples]]:
    ordered = sorted(samples, key=lambda line: line.generation)
    return [[line for line in ordered if line.backend == label] for label in labels]


def _interactions(trial: Trial, samples: Sequence[Samples]) -> list[list[float]]:
    """Per generation that all four programs finished, the interaction of the rounds."""
    names = (trial.off, trial.first, trial.second, trial.on)
    of = [{line.generation: line.seconds for line in lines} for lines in _of(samples, *names)]
    common = [number for number in of[0] if all(number in one for one in of)]
    found = [stats.interaction(*(one[number] for one in of)) for number in common]
    return [values for values in found if values]
