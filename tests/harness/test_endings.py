"""How a command ends that the system stops: by SIGTERM, or for want of memory."""

from __future__ import annotations

import subprocess
import sys

from suites.harness.record.invocation import Invocation

TERMINATED = """
import os, signal, sys, time
from pathlib import Path
from suites.cli import guard
from suites.harness.run.runner import Interrupted

def call():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    except KeyboardInterrupt:
        {answer}

guard(call, "enginebench")
"""


def end(arguments):
    """Status and standard error of a Python process."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_sigterm_tells_how_to_continue_a_run_as_an_interrupt_does(tmp_path):
    path = tmp_path / "run.jsonl"
    path.touch()
    Invocation("run", ["mlp"]).keep(path)
    code = TERMINATED.format(answer=f"raise Interrupted(Path({str(path)!r}))")
    status, told = end(["-c", code])
    assert status == 143
    assert told == f"interrupted; stored so far: {path}\nto continue: enginebench run --resume {path}\n"


def test_sigterm_ends_a_command_that_stores_nothing(tmp_path):
    assert end(["-c", TERMINATED.format(answer="raise")]) == (143, "interrupted\n")


def test_a_process_that_ignores_sigterm_goes_on_ignoring_it():
    code = """
import os, signal
from suites.cli import guard
signal.signal(signal.SIGTERM, signal.SIG_IGN)
guard(lambda: os.kill(os.getpid(), signal.SIGTERM) or 7, "enginebench")
"""
    assert end(["-c", code]) == (7, "")
