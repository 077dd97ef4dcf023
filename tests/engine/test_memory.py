"""Memory of results: never another one's, and used once more when nobody refers to it any longer."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import memory
from engine.targets import host
from tests import messages

FLOAT = np.dtype(np.float32)
X = torch.linspace(-1, 1, 128 * 64).reshape(128, 64)
LARGE = nn.Linear(64, 512).eval()  # results of 256 KiB


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_is_used_once_more_when_its_array_is_gone_and_not_before():
    recycler = host.Recycler()
    first = recycler.array((256, 256), FLOAT)
    second = recycler.array((256, 256), FLOAT)
    where = address(first)
    assert where != address(second)
    del first
    assert address(recycler.array((128, 512), FLOAT)) == where


@pytest.mark.parametrize(
    "left",
    [
        lambda array: array[3:, ::2],
        lambda array: array.view(np.int32),
        lambda array: array.T,
        memoryview,
        torch.from_numpy,
        lambda array: torch.from_numpy(array)[7].numpy(),
        lambda array: torch.from_dlpack(torch.from_numpy(array)),
        lambda array: torch.from_numpy(array).untyped_storage(),
    ],
    ids=["slice", "other type", "transposed", "memoryview", "tensor", "tensor's array", "dlpack", "storage"],
)
def test_whatever_is_made_of_an_array_keeps_its_memory(left):
    recycler = host.Recycler()
    array = recycler.array((256, 256), FLOAT)
    where = address(array)
    kept = left(array)
    del array
    assert address(recycler.array((256, 256), FLOAT)) != where
    del kept
    assert where in {address(one) for one in [recycler.array((256, 256), FLOAT) for _ in range(2)]}


def test_a_piece_serves_what_is_as_large_or_down_to_half_of_it():
    recycler = host.Recycler()
    where = address(recycler.array((1000,), FLOAT))
    assert address(recycler.array((500,), FLOAT)) == where
    assert address(recycler.array((499,), FLOAT)) != where
    assert address(recycler.array((1001,), FLOAT)) != where


def test_no_more_is_kept_than_was_said_and_what_was_free_longest_goes_first():
    recycler = host.Recycler(most=10_000)
    pieces = [recycler.array((1000,), FLOAT) for _ in range(3)]
    where = [address(one) for one in pieces]
    while pieces:
        pieces.pop(0)  # freed in order: the third does not fit beside the first two
    found = [recycler.array((1000,), FLOAT) for _ in range(2)]
    assert {address(one) for one in found} == set(where[1:])


def test_arrays_are_aligned():
    assert all(address(host.Recycler().array((n,), FLOAT)) % memory.ALIGNMENT == 0 for n in (1, 33, 1000))


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("outputs", ["recycled", "fresh"])
def test_results_that_are_kept_stay_as_they_are(kind, outputs):
    program = engine.compile(LARGE, (X,), engine.Config(outputs=outputs))
    inputs = [X * factor for factor in range(1, 7)]
    with torch.inference_mode():
        expected = [LARGE(x) for x in inputs]
    kept = [program(x if kind == "torch" else x.numpy()) for x in inputs]
    kept = [one[1:] for one in kept]  # views alone
    for one, other in zip(kept, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other[1:])


def test_a_loop_that_drops_its_results_takes_two_pieces_from_the_system(monkeypatch):
    pieces = []

    def counted(nbytes: int) -> np.ndarray:
        pieces.append(nbytes)
        return aligned_empty(nbytes)

    aligned_empty = host.aligned_empty
    monkeypatch.setattr(host, "aligned_empty", counted)
    monkeypatch.setattr(host, "RESULTS", host.Recycler())
    program = engine.compile(LARGE, (X,))
    y = program(X)
    for _ in range(10):
        y = program(X)  # the former one is there until this is assigned
    assert y.shape == (128, 512)
    assert [nbytes for nbytes in pieces if nbytes >= host.LARGE] == [256 << 10] * 2  # the others are arenas


def test_threads_do_not_write_to_each_others_results():
    program = engine.compile(LARGE, (X,))
    with torch.inference_mode():
        expected = [LARGE(X * factor) for factor in range(1, 5)]
    wrong = []

    def work(number: int) -> None:
        former = program(X * (number + 1))
        for _ in range(200):
            latest = program(X * (number + 1))
            if not torch.equal(former, latest):
                wrong.append(number)
            former = latest
        if not torch.allclose(former, expected[number], atol=1e-5):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_large_results_of_every_type_are_those_of_eager():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool):
        x = (torch.arange(512 * 512).reshape(512, 512) % 7).to(dtype)
        y = engine.compile(Doubled().eval(), (x,))(x)
        assert y.dtype is dtype
        assert torch.equal(y, Doubled()(x))


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])


def test_the_switch_is_reached_only_where_results_are_large():
    def digest(model: nn.Module, x: torch.Tensor, outputs: str) -> str:
        return engine.compile(model, (x,), engine.Config(outputs=outputs)).run_digest

    small = nn.Linear(64, 8).eval()
    assert digest(LARGE, X, "recycled") != digest(LARGE, X, "fresh")
    assert digest(small, X, "recycled") == digest(small, X, "fresh")


class Enormous(nn.Module):
    """Twice `x`, [1], in 2**44 bytes, and their sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.expand(1 << 21, 1 << 21) * 2).sum()


def test_a_program_that_takes_more_memory_than_there_is_is_refused():
    with pytest.raises(engine.ProgramError, match=r"a call takes 175\d{11} bytes; this process can have"):
        engine.compile(Enormous().eval(), (torch.ones(1),))
    program = engine.compile(Enormous().eval(), (torch.ones(1),), engine.Config(target="interpreter"))
    with pytest.raises(engine.ProgramError, match=r"a call in the interpreter takes \d{14} bytes"):
        program(torch.ones(1))


class Chain(nn.Module):
    """Many values of the size of `x`, of which the first is read again at the end."""

    LENGTH = 24

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = y = -x
        for _ in range(self.LENGTH):
            y = -y
        return y + first


def interpreted_chain(x: torch.Tensor) -> engine.Program:
    return engine.compile(Chain().eval(), (x,), engine.Config(target="interpreter", pipeline=()))


@pytest.mark.parametrize("traced", [False, True], ids=["call", "trace"])
def test_the_interpreter_releases_a_value_after_its_last_use(traced):
    x = torch.ones(1 << 20, dtype=torch.float64)  # in this type the references compute without a wider copy
    program = interpreted_chain(x)
    run = program.trace if traced else program
    tracemalloc.start()
    result = run(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert traced or torch.equal(result, Chain()(x))
    # the first value, what a node reads and makes, and the result twice; a trace computes statistics in copies
    assert peak < (8 if traced else 5.5) * x.nbytes


PEAK_OF_A_TRACE = """
    import numpy as np
    import engine

    def resident(name):
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) << 10

    x = np.ones(1 << 21, np.float32)
    program = engine.load(sys.argv[1], config=engine.Config(pipeline=()))
    program.trace(np.ones(1 << 21, np.float32))
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    program.trace(x)
    print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.long
def test_a_trace_on_the_cpu_releases_a_value_after_its_last_use(tmp_path):
    engine.compile(Chain().eval(), (torch.ones(1 << 21),), engine.Config(pipeline=())).save(tmp_path / "p.engine")
    code = "import sys\nfrom pathlib import Path\n" + textwrap.dedent(PEAK_OF_A_TRACE)
    command = [sys.executable, "-c", code, str(tmp_path / "p.engine")]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    # two or three values, the result twice, and statistics in float64 with a mask: about 7 times a value
    assert int(found.stdout) < 12 * 4 * (1 << 21)
    assert Chain.LENGTH > 20


def test_the_interpreter_asks_for_as_much_memory_as_values_take_at_the_same_time(monkeypatch):
    x = torch.ones(1 << 10, dtype=torch.float64)
    program = interpreted_chain(x)
    monkeypatch.setattr(memory, "total_bytes", lambda: 3 * x.nbytes)  # the first, one that is read, one that is made
    program(x)
    monkeypatch.setattr(memory, "total_bytes", lambda: 3 * x.nbytes - 1)
    with messages.raises(engine.ProgramError):
        program(x)


def test_memory_that_the_system_does_not_give_is_a_program_error():
    with messages.raises(engine.ProgramError):
        memory.aligned_empty(1 << 48)
