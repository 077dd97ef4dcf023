"""Telling a disturbed round from the kernel's counters, which here are files of our own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from suites.harness.measure.contention import Used, Watch, kept


def counters(folder, busy, stolen, own):
    """`busy`, `stolen` and process 7's own time in seconds."""
    tick = os.sysconf("SC_CLK_TCK")
    (folder / "7").mkdir(exist_ok=True)
    (folder / "stat").write_text(f"cpu {int(busy * tick)} 0 0 999 9 0 0 {int(stolen * tick)} 0 0\ncpu0 1 2\n")
    (folder / "7/stat").write_text(f"7 (a name) with) S 1 1 1 0 -1 0 0 0 0 0 {int(own * tick)} 0 0 0\n")


def test_what_the_run_did_not_use_itself_is_foreign(tmp_path):
    counters(tmp_path, 100, 5, 20)
    watch = Watch(lambda: [7], tmp_path)
    counters(tmp_path, 103, 5, 21)
    found = watch.read()
    assert found.foreign == pytest.approx(2, abs=0.05)  # 3 busy, 1 of them its own, and what this test itself takes
    assert found.stolen == 0
    counters(tmp_path, 104, 6, 22)
    assert watch.read().stolen == pytest.approx(1)


def test_a_process_that_is_gone_and_a_system_without_counters_disturb_nothing(tmp_path):
    watch = Watch(lambda: [7, 8], tmp_path)
    assert not watch.read().disturbed


@pytest.mark.parametrize(
    ("used", "disturbed"),
    [
        (Used(1.0, 0.04, 0.0), False),
        (Used(1.0, 0.06, 0.0), True),
        (Used(1.0, 0.03, 0.03), True),
        (Used(0.1, 0.02, 0.0), False),  # two ticks of a short round
        (Used(0.1, 0.04, 0.0), True),
    ],
)
def test_a_round_is_disturbed_by_a_share_of_it_that_ticks_can_show(used, disturbed):
    assert used.disturbed is disturbed


def test_a_busy_neighbour_is_seen_on_a_real_machine():
    watch = Watch(list)
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    found = watch.read()
    assert found.foreign > 0.2
    assert found.disturbed


def test_undisturbed_rounds_are_kept_first_and_order_stays():
    assert kept([False, True, False, True, False], 3) == [0, 2, 4]
    assert kept([True, True, False, True], 3) == [0, 1, 2]
    assert kept([False, False], 3) == [0, 1]
