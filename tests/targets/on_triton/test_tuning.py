"""Configurations of kernels: measured, stored, found again, by clocks whose times are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import engine
from engine.runtime import requests
from engine.targets.triton import configurations, kernel_table, tuning
from engine.targets.triton.configurations import Measured, Question, describe_sizes, file_of, read_table, write_rows
from engine.targets.triton.device import TritonDevice
from engine.targets.tuned import Tuned, TuningOptions
from tests import messages

ON_TRITON = engine.Config(target="triton")


class Clock:
    """Says that a run takes what `seconds` says of the arguments of its first launch; runs each launch once."""

    def __init__(self, seconds: Callable[[dict[str, Any]], float]) -> None:
        self._seconds = seconds
        self._seen: set[str] = set()

    def measure(self, run: Any) -> float:
        arguments = run.args[0][0].arguments
        described = str({name: value for name, value in arguments.items() if isinstance(value, int | str)})
        if described not in self._seen:
            run()
        self._seen.add(described)
        return self._seconds(arguments)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(40, 24)
        self.next = nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.next(torch.tanh(self.layer(x)))


def tune(
    monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: Callable[[dict[str, Any]], float], rows: int = 6
) -> Any:
    options = TuningOptions(9, folder, Clock(seconds))
    monkeypatch.setattr("engine.runtime.program.tuning_options", lambda _rounds, _folder: options)
    program = engine.compile(Layer().eval(), (torch.randn(rows, 40),), ON_TRITON)
    return program.tune(torch.randn(rows, 40)), program


def test_the_fastest_is_chosen_and_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, _program = tune(monkeypatch, tmp_path, lambda a: 1.0 if a["BLOCK_N"] == 32 else 2.0)
    assert [row.kernel for row in found.rows] == ["multiply_tiles"] * 2
    assert [row.sizes.split(" float32")[0] for row in found.rows] == ["m<=8 n<=32 k<=64", "m<=8 n<=32 k<=32"]
    for row in found.rows:
        assert row.rule["block_n"] == 64
        assert row.configuration["block_n"] == 32
        assert (row.ratio, row.low, row.high) == (0.5, 0.5, 0.5)
    assert read_table(found.path) == sorted(found.rows, key=lambda row: row.sizes)


def test_the_rule_stays_without_a_certain_gain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that is fastest by a little, and one that was lucky only while all candidates took turns."""
    found, _program = tune(monkeypatch, tmp_path, lambda a: 0.99 if a["BLOCK_N"] == 32 else 1.0)
    assert all(row.configuration == row.rule and row.ratio == 1 for row in found.rows)
    times = iter([1.0, 0.5] * 9 + [1.0] * 100)
    found, _program = tune(monkeypatch, tmp_path / "lucky", lambda _a: next(times))
    assert found.rows[0].configuration == found.rows[0].rule


def test_programs_use_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only for its class of sizes, its device and its source; results stay right."""
    found, program = tune(monkeypatch, tmp_path, lambda a: 1.0 if a["BLOCK_N"] == 32 else 2.0)
    row = found.rows[0]
    finder = Measured(found.device, [tmp_path])
    question = Question(row.kernel, row.source, row.sizes)
    candidates = [_Pair(16, 64, 64, 4, 3), _Pair(16, 32, 64, 4, 3)]
    assert finder.find(question, candidates, candidates[0]) == candidates[1]
    assert finder.find(question._replace(source="other"), candidates, candidates[0]) == candidates[0]
    assert finder.find(question._replace(sizes="m<=16"), candidates, candidates[0]) == candidates[0]
    assert finder.find(question, candidates[:1], candidates[0]) == candidates[0], "no longer a candidate"
    assert Measured("another", [tmp_path]).find(question, candidates, candidates[0]) == candidates[0]

    from engine.targets import get

    monkeypatch.setattr(get("triton"), "_find_configurations", lambda _name: finder)
    torch.manual_seed(0)
    model, x = Layer().eval(), torch.randn(6, 40)
    again = engine.compile(model, (x,), ON_TRITON)
    torch.testing.assert_close(again(x), model(x), rtol=2e-5, atol=2e-5)
    assert again.run_digest != engine.compile(model, (torch.randn(40, 40),), ON_TRITON).run_digest
    assert again.run_digest != program.run_digest, "the digest says that another configuration runs"


class _Pair(NamedTuple):
    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


def test_tables_are_merged(tmp_path: Path) -> None:
    first = Tuned("k", "old", "m<=8", {"a": 1}, {"a": 2}, 0.5, 0.4, 0.6, 9, 3)
    other = first._replace(sizes="m<=16")
    path = write_rows(tmp_path, "NVIDIA H200", [first, other], {"triton": "3.7.1"})
    assert path.name == file_of("NVIDIA H200") == "nvidia-h200.json"
    newer = first._replace(source="new", configuration={"a": 3})
    write_rows(tmp_path, "NVIDIA H200", [newer], {})
    assert read_table(path) == [other, newer]
    assert json.loads(path.read_text())["device"] == "NVIDIA H200"
    assert [one.name for one in tmp_path.iterdir()] == [path.name], "no partial file is left"


def test_the_users_table_is_asked_first(tmp_path: Path) -> None:
    row = Tuned("k", "s", "m<=8", {"block_m": 1}, {"block_m": 2}, 0.5, 0.4, 0.6, 9, 3)
    write_rows(tmp_path / "package", "G", [row, row._replace(sizes="m<=16")], {})
    write_rows(tmp_path / "user", "G", [row._replace(configuration={"block_m": 3})], {})
    finder = Measured("G", [tmp_path / "user", tmp_path / "package"])

    class One(NamedTuple):
        block_m: int

    candidates = [One(1), One(2), One(3)]
    assert finder.find(Question("k", "s", "m<=8"), candidates, candidates[0]) == One(3)
    assert finder.find(Question("k", "s", "m<=16"), candidates, candidates[0]) == One(2)


@pytest.mark.parametrize(
    "text", ['{"schema": 9, "rows": []}', '{"rows": []}', '{"schema": 1, "rows": [{"kernel": "k"}]}']
)
def test_a_damaged_table_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / file_of("G")).write_text(text)
    with messages.raises(engine.ConfigError):
        Measured("G", [tmp_path])
    with messages.raises(engine.ConfigError):
        write_rows(tmp_path, "G", [], {})


@pytest.mark.parametrize(("text", "told"), [("{", "Expecting property name"), ("[]", "list indices")])
def test_a_table_that_python_cannot_read_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / file_of("G")
    path.write_text(text)
    with pytest.raises(engine.ConfigError, match=told) as caught:
        Measured("G", [tmp_path])
    assert str(path) in str(caught.value)
    with pytest.raises(engine.ConfigError, match=file_of("G")):
        write_rows(tmp_path, "G", [], {})


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "folder", tmp_path / "file"):
        with pytest.raises(engine.ConfigError, match=r"file.*: cannot be (read|written)"):
            write_rows(folder, "G", [], {})


def test_sizes_of_a_class() -> None:
    assert describe_sizes(["float32"], m=1, n=4096, k=4097) == "m<=1 n<=4096 k<=8192 float32"


def test_a_measurement_holds_for_one_version_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    function = next(iter(kernel_table.kernels()["linear"])).plan.__globals__["multiply_tiles"]
    before = configurations.hash_source(function)
    configurations.hash_source.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", lambda _package: "3.8.0")
    assert configurations.hash_source(function) != before
    configurations.hash_source.cache_clear()


def test_only_a_gpu_is_worth_measuring() -> None:
    program = engine.compile(Layer().eval(), (torch.randn(6, 40),), ON_TRITON)
    with messages.raises(engine.ConfigError):
        program.tune(torch.randn(6, 40))
    on_cpu = engine.compile(Layer().eval(), (torch.randn(6, 40),))
    with messages.raises(engine.ConfigError):
        on_cpu.tune(torch.randn(6, 40))
    for wrong in ({"rounds": 0}, {"rounds": True}, {"folder": 3}):
        with messages.raises(engine.ConfigError):
            program.tune(torch.randn(6, 40), **wrong)
    assert requests.tuning_options(3, "here") == TuningOptions(3, Path("here"))


def test_a_configuration_that_does_not_compile_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compile_all = tuning.compile_all

    def refuse(starts: Any) -> None:
        if starts[0].arguments["BLOCK_N"] == 32:
            raise engine.ExecutionError("out of shared memory")
        compile_all(starts)

    monkeypatch.setattr(tuning, "compile_all", refuse)
    found, _program = tune(monkeypatch, tmp_path, lambda a: 1.0 if a["BLOCK_N"] == 32 else 2.0)
    assert all(row.configuration == row.rule and row.candidates == 1 for row in found.rows)


def test_configurations_are_measured_on_the_device_of_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also if another CUDA device has become the current one of torch."""
    current: list[str] = []

    @contextmanager
    def select(place: str) -> Iterator[None]:
        current.append(place)
        yield
        current.pop()

    def measure(_arguments: dict[str, Any]) -> float:
        assert current == ["cuda:1"]
        return 1.0

    monkeypatch.setattr(torch.cuda, "device", select)
    device = TritonDevice()
    device.place = "cuda:1"
    monkeypatch.setattr(TritonDevice, "selected", lambda _self, one=device.selected: one())
    tune(monkeypatch, tmp_path, measure)
    assert not current


def test_the_device_is_held_back_until_a_step_is_in_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            events.append("record")

        def synchronize(self) -> None:
            events.append("wait")

        def elapsed_time(self, _other: object) -> float:
            return 2.5

    class Buffer:
        def zero_(self) -> None:
            events.append("write")

    def empty(nbytes: int, **_options: object) -> Buffer:
        assert nbytes >= 4 * (50 << 20), "more than the cache holds"
        return Buffer()

    properties = SimpleNamespace(L2_cache_size=50 << 20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _place: properties)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(tuning, "hold_device", lambda _seconds: events.append("hold"))
    assert tuning.EventClock("cuda:0").measure(lambda: events.append("run")) == 0.0025
    assert events == ["write", "hold", "record", "run", "record", "wait"]


def test_tables_of_the_package_can_be_read() -> None:
    for path in configurations.PACKAGED.glob("*.json"):
        assert read_table(path), path
