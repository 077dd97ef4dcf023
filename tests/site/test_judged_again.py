"""Stored runs are judged again from their samples, and say what they said: upgraded records and today's rules agree."""

from __future__ import annotations

import json
import math

import pytest

from suites.harness.judge import stats
from suites.harness.judge.summary import judge_pair, log_speeds
from suites.harness.record import lookup
from suites.harness.record.schema import AblationRecord, Compared
from suites.site.places import SamplesOfRuns, _Knowledge


@pytest.fixture(scope="module")
def machines(collection):
    """The runs of each machine, oldest first."""
    found = {}
    for run in sorted(collection.runs, key=lambda run: run.name):
        found.setdefault(run.environment.machine, []).append(run)
    return list(found.values())


def read_texts(path):
    """(case, backend, other) -> speed, low, high and verdict, from the text of a file. Early ratios are of times."""
    rows = [row for row in map(json.loads, path.read_text().splitlines()) if row["kind"] == "summary"]
    for row in rows:
        base = row | {"backend": row["baseline"]}
        for one in (base, row.get("best_peer"), row.get("runner_up"), *(row.get("versions") or ())):
            ratio, speed = (one and one.get(name) for name in ("ratio", "speed"))
            if ratio:
                speed = {"value": 1 / ratio["value"], "low": 1 / ratio["high"], "high": 1 / ratio["low"]}
            if speed:
                verdict = one["verdict"].replace("inconclusive", "unclear")
                yield (row["case"], row["backend"], one["backend"]), ([*speed.values()], verdict)


def list_compared(row):
    """The comparisons of an upgraded row."""
    base = Compared(backend=row.baseline, speed=row.speed, verdict=row.verdict)
    found = [base, row.best_peer, row.runner_up, *(row.versions or ())]
    return [one for one in found if one is not None and one.speed is not None]


def unpack(speed):
    return [speed.value, speed.low, speed.high]


def test_upgraded_rows_say_what_the_texts_of_their_files_say(collection):
    for run in collection.runs:
        texts = dict(read_texts(run.path))
        for row in run.summaries():
            for one in list_compared(row):
                numbers, verdict = texts[row.case, row.backend, one.backend]
                assert (unpack(one.speed), one.verdict) == (pytest.approx(numbers), verdict), (run.name, row.case)


def test_samples_of_stored_runs_give_the_stored_speeds_and_verdicts(machines):
    """Intervals and verdicts depend on earlier runs too. They are compared where these are stored as well."""
    verdicts, others = [], 0
    for runs in machines:
        knowledge, samples = _Knowledge(runs), SamplesOfRuns()
        rows = [(run, row) for run in runs for row in run.summaries()]
        for run, row in rows:
            spread = knowledge.find_spread(run, row)
            for one in list_compared(row):
                mine, theirs = (samples.find(run, row.case, label) for label in (row.backend, one.backend))
                is_twin = row.backend == f"{one.backend}#2"
                floor = 0.0 if is_twin or row.floor is None else math.log1p(row.floor)
                again = judge_pair(mine, theirs, spread, floor, run.environment.plan.same_within)
                where = run.name, row.case, row.backend, one.backend
                assert again["speed"].value == pytest.approx(one.speed.value), where
                if spread.observations == row.aa_observations:
                    assert (unpack(again["speed"]), again["verdict"]) == (
                        pytest.approx(unpack(one.speed)), one.verdict,
                    ), where  # fmt: skip
                    verdicts.append(one.verdict)
                else:
                    others += 1
    assert min(map(verdicts.count, ("faster", "slower", "same", "unclear"))) > 50
    assert others < len(verdicts)


def test_samples_of_stored_ablations_give_the_speed_with_each_switch_or_value(machines):
    """The program with the value is the one whose label has it."""
    values = switches = 0
    for run in (run for runs in machines for run in runs if lookup.is_ablation(run)):
        samples = SamplesOfRuns()
        for line in run.of(AblationRecord):
            if line.names_value:
                assert line.switch in line.with_
                assert line.switch not in line.without
            if line.speed is None or line.mode == "pair":
                continue
            logs = log_speeds(*(samples.find(run, line.case, label) for label in (line.with_, line.without)))
            assert stats.speed(logs, stats.spread_of([])).value == pytest.approx(line.speed.value), line
            assert line.verdict in ("same", "unclear") or (line.verdict == "faster") == (line.speed.value > 1)
            values, switches = values + line.names_value, switches + (not line.names_value)
    assert min(values, switches) > 10
