"""The handover between processors: which pairs are measured, and None where no pair can be."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine import targets
from suites.harness.measure import handover

needs_linux = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux lets it choose processors")


def measured(monkeypatch, usable, seconds):
    """The handover between the processors `usable`, where a pair takes ``seconds(second)``; and the pairs."""
    pairs = []

    def of_pair(first, second, *_seconds):
        pairs.append((first, second))
        return seconds(second)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: usable, raising=False)
    monkeypatch.setattr(targets.get("cpu").instruments, "measure_handover", of_pair)
    return handover.measure(), pairs


def test_the_first_processor_is_paired_with_the_others(monkeypatch):
    found, pairs = measured(monkeypatch, {3, 5, 9}, float)
    assert found == handover.Handover(nearest=5.0, farthest=9.0)
    assert pairs == [(3, 5), (3, 9)]


def test_of_many_processors_some_are_chosen_from_all_over(monkeypatch):
    found, pairs = measured(monkeypatch, set(range(256)), float)
    assert len(pairs) <= handover.MOST + 1
    assert found is not None
    assert found.farthest > 230


def test_pairs_that_cannot_be_measured_are_left_out(monkeypatch):
    assert measured(monkeypatch, {0, 1, 2}, lambda second: None if second == 1 else 4e-8)[0] == handover.Handover(
        4e-8, 4e-8
    )
    assert measured(monkeypatch, {0, 1}, lambda _second: None)[0] is None


@needs_linux
def test_one_processor_has_no_other():
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    program += "from suites.harness.measure import handover; print(handover.measure())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


@needs_linux
def test_a_thread_that_measures_leaves_the_caller_where_it_was():
    before = os.sched_getaffinity(0)
    handover.measure()
    assert os.sched_getaffinity(0) == before
