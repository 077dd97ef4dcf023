"""Worker threads in a process that does other things: floating-point settings, signals, forks, its end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import engine

LEAST = np.finfo(np.float32).tiny  # every smaller number is subnormal


class Small(nn.Module):
    """Products and quotients of subnormal numbers, each op in many tiles."""

    def forward(self, x, y):
        return x * 0.5, x * y, (x * 0.25) / y, torch.softmax(x * 1e38, -1)


@pytest.fixture
def flush():
    """`torch.set_flush_denormal`, undone after the test."""
    yield torch.set_flush_denormal
    torch.set_flush_denormal(False)


def test_results_do_not_depend_on_the_thread_where_subnormal_numbers_are_flushed(flush):
    """Workers compute with the settings of the caller at the time of the call, each time that they change."""
    generator = torch.Generator().manual_seed(0)
    x = LEAST * torch.rand(600, 512, generator=generator)
    arguments = (x, torch.rand(600, 512, generator=generator))
    one, two = (engine.compile(Small().eval(), arguments, engine.Config(threads=n)) for n in (1, 2))
    results = {}
    for setting in (False, True, False, True):
        if not flush(setting) and setting:
            pytest.skip("this processor cannot flush subnormal numbers")
        expected = results[setting] = [y.numpy().tobytes() for y in one(*arguments)]
        busy = 0.0
        for number in range(2000):
            assert [y.numpy().tobytes() for y in two(*arguments)] == expected
            busy += two.profile(*arguments, runs=1, roofs=False).threads[1].busy_seconds
            if busy and number >= 20:
                break
        assert busy, "the worker ran no tile"
    assert results[True] != results[False]  # or this test could not fail


# --- processes of their own ----------------------------------------------------------------------------------------

BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import engine

program = engine.load(sys.argv[1], config=engine.Config(threads=2))
x = np.linspace(-1, 1, 400 * 4096, dtype=np.float32).reshape(400, 4096)
expected = program(x)

def threads():
    return len(os.listdir("/proc/self/task"))
"""


def save(path: Path, repeats: int) -> Path:
    """Write a program whose every op has many tiles; a call takes some milliseconds a repeat."""
    layers = [nn.Softmax(-1), nn.GELU(), nn.LayerNorm(4096, elementwise_affine=False)]
    engine.compile(nn.Sequential(*layers * repeats).eval(), (torch.zeros(400, 4096),)).save(path)
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(tmp_path_factory.mktemp("threads") / "p.engine", repeats=1)


def run_script(saved: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` behind `BEGIN` in a process without torch, whose only other threads are the engine's."""
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(code), str(saved)]
    environment = {"OPENBLAS_NUM_THREADS": "1", "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in Linux's /proc")


@linux
def test_a_signal_goes_to_the_thread_that_waits_for_it(saved):
    """The worker exists before any signal is blocked, so that a worker without a mask of its own would take it."""
    done = run_script(
        saved,
        """
        assert threads() == 2
        wanted = {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        for number in sorted(wanted):
            os.kill(os.getpid(), number)
            assert signal.sigtimedwait(wanted, 10).si_signo == number
            program(x)
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")


FORKS = """
    stop = threading.Event()
    wrong = []

    def call():
        while not stop.is_set():
            if not np.array_equal(program(x), expected):
                wrong.append("parent")

    def be_child():
        try:
            signal.alarm(60)  # one that waits for a thread which it does not have ends here
            good = all(np.array_equal(program(x), expected) for _ in range(2))
            os._exit(0 if good and threads() == 2 else 1)
        except BaseException:
            os._exit(2)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for number in range(25):
        time.sleep(0.002 * (number % 4))
        child = os.fork()
        if child == 0:
            be_child()
        status = os.waitpid(child, 0)[1]
        if status:
            wrong.append(f"child {number}: {status}")
    stop.set()
    for caller in callers:
        caller.join()
    assert not wrong, wrong
    assert np.array_equal(program(x), expected)
    for _ in range(1000):  # a thread that was joined may exist for a moment
        if threads() == 2:
            break
        time.sleep(0.01)
    assert threads() == 2, "the parent has another number of workers than before"
"""


@linux
def test_a_child_of_a_fork_has_a_pool_of_its_own_whoever_used_that_of_the_parent(saved):
    done = run_script(saved, FORKS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("callers", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_process_ends_cleanly_while_a_daemon_thread_is_in_a_call(callers, tmp_path):
    """A call takes longer than the interpreter needs to end, so threads compute until the process does not exist."""
    path = save(tmp_path / "p.engine", repeats=50)
    code = f"""
        def call():
            while True:
                program(x)

        for _ in range({callers}):
            threading.Thread(target=call, daemon=True).start()
        time.sleep(float(os.urandom(1)[0]) / 255 * 0.02)
    """
    for _ in range(3):
        done = run_script(path, code)
        assert (done.returncode, done.stderr) == (0, "")
