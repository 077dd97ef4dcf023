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
from suites.harness.judge.summary import correct_verdict, group_samples, log_speeds
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
        reason: tuple[Status, str] | None = self.facts_on.get("refused") or self.facts_off.get("refused")
        return reason

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
        options = dict(self.base.options)
        changed: set[str] = set()
        for key, value in (item for change in changes for item in change.items()):
            if key in self.lists and key in options:
                options[key] = f"{options[key]}+{value}"
            elif key in changed and options[key] != value:
                return None
            else:
                options[key] = value
            changed.add(key)
        return options

    def ref(self, options: Mapping[str, str]) -> BackendRef:
        """The backend with `options`."""
        return replace(self.base, options=options)

    def asked(self, modes: Iterable[str]) -> list[dict[str, str]]:
        """Options of every program whose facts are needed, each once; the whole first."""
        wanted: list[Mapping[str, str] | None] = [self.base.options, self.bare]
        if LEAVE_ONE_OUT in modes:
            wanted += [self.options(switch.without) for switch in self.switches]
        if ADD_ONE_IN in modes and self.bare is not None:
            wanted += [switch.alone for switch in self.switches]
        return [
            dict(options)
            for number, options in enumerate(wanted)
            if options is not None and options not in wanted[:number]
        ]

    def trials(self, modes: Iterable[str], facts: Mapping[str, Facts]) -> list[Trial]:
        """Every switch in each of `modes`; `facts` has those of each label."""
        whole, trials = self.base.label, []
        bare = None if self.bare is None else self.ref(self.bare).label
        if bare is not None:
            trials.append(_make_trial(BackendSwitch("all", ALL, {}), LEAVE_ONE_OUT, whole, bare, facts))
        for switch in self.switches:
            without = self.options(switch.without)
            if LEAVE_ONE_OUT in modes and without is not None:
                changed = self.ref(without).label
                on, off = (changed, whole) if switch.is_value else (whole, changed)
                trials.append(_make_trial(switch, LEAVE_ONE_OUT, on, off, facts))
            if ADD_ONE_IN in modes and bare is not None and switch.alone is not None:
                trials.append(_make_trial(switch, ADD_ONE_IN, self.ref(switch.alone).label, bare, facts))
        return trials

    def pairs(self, names: Sequence[str]) -> list[tuple[BackendSwitch, BackendSwitch, dict[str, str]]]:
        """Every two of the named switches that can be left out together, with the options that leave both out."""
        switches = [switch for switch in self.switches if switch.name in names]
        return [
            (first, second, options)
            for first, second in itertools.combinations(switches, 2)
            if (options := self.options(first.without, second.without)) is not None
        ]

    def pair_trial(
        self, one: BackendSwitch, other: BackendSwitch, options: Mapping[str, str], facts: Mapping[str, Facts]
    ) -> Trial:
        """Two switches together."""
        first, second = (self.ref(self.options(switch.without) or {}).label for switch in (other, one))
        switch = BackendSwitch("pair", f"{one.name}+{other.name}", {})
        trial = _make_trial(switch, PAIR, self.base.label, self.ref(options).label, facts)
        return replace(trial, first=first, second=second)


def _make_trial(switch: BackendSwitch, mode: Mode, on: str, off: str, facts: Mapping[str, Facts]) -> Trial:
    return Trial(switch.kind, switch.name, mode, on, off, facts[on], facts[off])


def parts(ablation: Ablation, trials: Sequence[Trial], size: int) -> list[list[str]]:
    """Labels that take turns with each other: every trial within one part, the whole and its second copy in each.

    Args:
        ablation: whose whole it is.
        trials: what is to be timed.
        size: labels of a part at most, where a single trial does not need more.
    """
    always = [ablation.base.label, ablation.base.again().label]
    parts: list[list[str]] = []
    for trial in trials:
        part = next((part for part in parts if len({*part, *trial.labels}) <= size), None)
        if part is None:
            part = list(always)
            parts.append(part)
        part += [label for label in trial.labels if label not in part]
    return parts


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
    lines = []
    for trial in trials:
        status, reason = trial.refused or _find_failure(trial, samples)
        line = AblationRecord(
            case=case.id,
            switch=trial.switch,
            switch_kind=trial.kind,
            mode=trial.mode,
            reached=trial.reached,
            status=status,
            reason=reason,
            with_=trial.on,
            without=trial.off,
            floor=math.expm1(floor) if floor else None,
            deltas=trial.deltas,
        )
        lines.append(line)
        logs = _interactions(trial, samples) if trial.mode == PAIR else _log_speeds(samples, trial.on, trial.off)
        if status != "ok" or not trial.reached or not logs:
            continue
        noise, margin = spread, floor
        if trial.mode == PAIR:  # two log-speeds, of processes of their own
            noise, margin = replace(spread, variance=2 * spread.variance), math.sqrt(2) * floor
        estimate = stats.estimate(logs, noise)
        line.speed, line.p = stats.interval(estimate), stats.p_value(estimate)
        line.verdict = stats.verdict(line.speed, same_within, margin)
        line.detectable = math.expm1(stats.detectable(estimate, margin))
    return lines


def conclude(lines: Sequence[AblationRecord]) -> list[AblationRecord]:
    """The same lines with p values raised by Holm's rule over all that were timed at once, and verdicts that stand it.

    Pairs are a family of their own: they are chosen by what the single switches showed.
    """
    concluded = [line.model_copy() for line in lines]
    for family in (MODES, (PAIR,)):
        timed = [(line, line.p) for line in concluded if line.mode in family and line.p is not None]
        for (line, _), p in zip(timed, stats.holm([p for _, p in timed]), strict=True):
            line.p = p
            line.verdict = line.verdict and correct_verdict(line.verdict, p)
    return concluded


def strongest(lines: Iterable[AblationRecord], count: int) -> list[str]:
    """Names of the switches that move time most, left out or added in, by the largest speed that a case shows."""
    moves: dict[str, float] = {}
    for line in lines:
        if line.speed is not None and line.mode in MODES and line.switch != ALL:
            moves[line.switch] = max(moves.get(line.switch, 0.0), abs(math.log(line.speed.value)))
    return sorted(moves, key=lambda name: -moves[name])[:count]


def floor_of(samples: Sequence[Samples], base: BackendRef, spread: stats.Spread) -> float:
    """The A/A floor of the whole and its second copy; 0 where the two have no rounds."""
    logs = _log_speeds(samples, base.again().label, base.label)
    return stats.floor_of(stats.speed(logs, spread)) if logs else 0.0


def _find_failure(trial: Trial, samples: Sequence[Samples]) -> tuple[Status, str | None]:
    wrong = [line for line in samples if line.backend in trial.labels and line.status != "ok"]
    return (wrong[0].status, f"{wrong[0].backend}: {wrong[0].reason}") if wrong and trial.reached else ("ok", None)


def _log_speeds(samples: Sequence[Samples], mine: str, base: str) -> list[list[float]]:
    """Per generation that both finished, the log-speeds of the rounds, from the samples of one case."""
    rows = {label: lines for (_, label), lines in group_samples(samples).items()}
    return log_speeds(rows.get(mine, []), rows.get(base, []))


def _interactions(trial: Trial, samples: Sequence[Samples]) -> list[list[float]]:
    """Per generation that all four programs finished, the interaction of the rounds."""
    rows = {label: lines for (_, label), lines in group_samples(samples).items()}
    labels = (trial.off, trial.first, trial.second, trial.on)
    first, *others = ({line.generation: line.seconds for line in rows.get(label, [])} for label in labels)
    common = [number for number in first if all(number in seconds for seconds in others)]
    values = [stats.interaction(first[number], *(seconds[number] for seconds in others)) for number in common]
    return [logs for logs in values if logs]
