"""Scratch of runs: gone behind each, and behind those that were killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile

from suites.harness.run.session import run_folder

HOLD = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from suites.harness.run.session import run_folder
with run_folder() as folder:
    (folder / "large").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_run_left_goes_with_the_next_and_what_a_living_one_holds_stays(tmp_path, monkeypatch, root):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holders = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root) for _ in range(2)]
    try:
        killed, living = (tmp_path / holder.stdout.readline().strip() for holder in holders)
        holders[0].kill()
        holders[0].wait()
        assert (killed / "large").exists()
        with run_folder() as folder:
            assert folder.is_dir()
            assert not killed.exists()
            assert (living / "large").exists()
        assert not folder.exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
