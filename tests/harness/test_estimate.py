"""How long a run will take: from records of this machine, otherwise of others, otherwise a stated assumption."""

from __future__ import annotations

import pytest

from suites.harness.declare import spec
from suites.harness.record import machine, store
from suites.harness.run import plan
from tests.harness import records

SUITE = """
name = "tiny"
backends = ["eager", "engine"]
[[models]]
name = "mlp"
options = { widths = "16-16" }
[[models]]
name = "mlp"
options = { widths = "32-32" }
"""


@pytest.fixture
def tiny():
    return plan.make(spec.parse(SUITE, "tiny.toml"))


def store_costs(results, slug, day, first, later):
    """One run of the first case of suite tiny: the seconds of a worker in the first generation and in later ones."""
    lines = [
        records.samples(case="mlp/b32/t1/fp32/widths=16-16", backend=label, generation=number, elapsed_s=seconds)
        for number, seconds in enumerate((first, later))
        for label in ("eager", "eager#2", "engine")
    ]
    path = results / "runs" / slug / f"202601{day:02d}T000000Z_abc_tiny.jsonl"
    with store.Writer(path) as writer:
        writer.append(records.environment(), *lines)


def seconds_of(first, later):
    """Two cases of three workers and two generations."""
    return 2 * (3 * (first + later) + plan.CASE_S)


def test_without_a_record_a_worker_takes_what_is_assumed(tiny, tmp_path):
    seconds, basis = tiny.estimate(tmp_path)
    assert seconds == pytest.approx(seconds_of(plan.ASSUMED_WORKER_S, plan.ASSUMED_WORKER_S))
    assert basis == "assuming 4 s a process, since no record has these models"


def test_records_of_other_machines_count_until_this_one_has_its_own(tiny, tmp_path):
    store_costs(tmp_path, "other-2c", 2, 5.0, 2.0)
    assert tiny.estimate(tmp_path) == (pytest.approx(seconds_of(5, 2)), "from records of other machines")
    store_costs(tmp_path, machine.slug(), 1, 3.0, 1.0)
    assert tiny.estimate(tmp_path) == (pytest.approx(seconds_of(3, 1)), "from records of this machine")


def test_workers_that_never_started_do_not_count(tiny, tmp_path):
    store_costs(tmp_path, machine.slug(), 1, 0.0, 0.0)
    seconds, basis = tiny.estimate(tmp_path)
    assert seconds == pytest.approx(seconds_of(plan.ASSUMED_WORKER_S, plan.ASSUMED_WORKER_S))
    assert basis.startswith("assuming 4 s a process")


def test_only_the_newest_runs_count(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "RECENT", 2)
    for day, (slug, first) in enumerate((("b-2c", 100.0), ("b-2c", 5.0), ("a-2c", 5.0)), 1):
        store_costs(tmp_path, slug, day, first, 2.0)
    assert tiny.estimate(tmp_path)[0] == pytest.approx(seconds_of(5, 2))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.2, "1 second"), (29.2, "29 seconds"), (59.4, "59 seconds"), (61, "1.0 minutes"), (100, "1.7 minutes")],
)
def test_a_duration_is_never_0_minutes(seconds, told):
    assert plan.describe_duration(seconds) == told
