"""What the time of a run was spent on."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from suites.harness.present import timing
from suites.harness.run.stopwatch import Stopwatch


def test_phases_add_up_to_the_time_that_passed(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Stopwatch()
    for phase, seconds in (("rounds", 3.0), ("reference", 1.0), ("rounds", 2.0)):
        with watch.time(phase):
            now[0] += seconds
    now[0] += 4.0
    assert watch.read() == {"rounds": 5.0, "reference": 1.0, "other": 4.0}
    assert list(watch.read()) == ["rounds", "reference", "other"]


def test_a_phase_that_fails_is_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Stopwatch()

    def fail():
        with watch.time("verify"):
            now[0] += 2.0
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert watch.read()["verify"] == 2.0


def test_time_that_processes_share_is_divided_by_their_work():
    watch = Stopwatch()
    watch.divide(10.0, {"build model": 12.0, "verify": 4.0})
    assert watch.seconds == {"build model": 7.5, "verify": 2.5}
    watch.divide(1.0, {})
    assert sum(watch.seconds.values()) == 10.0


def test_it_is_printed_with_a_share_and_a_bar_a_phase():
    watch = Stopwatch()
    watch.add("rounds", 30.0)
    watch.add("reference", 10.0)
    console = Console(file=io.StringIO(), width=80)
    timing.print_timing(console, watch)
    lines = console.file.getvalue().splitlines()
    (rounds,) = [line for line in lines if line.strip().startswith("rounds")]
    assert rounds.split()[:4] == ["rounds", "30.0", "s", "75%"]
    assert rounds.count("\u2588") == timing.BAR
