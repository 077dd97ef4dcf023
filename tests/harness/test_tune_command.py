"""``enginebench tune``: what it refuses, and how it shows what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.targets.tuned import Tuned, Tuning
from suites.cli import main, tune
from suites.harness.declare.case import BackendRef
from suites.harness.measure.cuda import Cuda

FASTER = Tuned("multiply_tiles", "0" * 16, "m<=16 bfloat16", {"warps": 4}, {"warps": 8}, 0.8, 0.75, 0.9, 9, 4)
SAME = Tuned("attend_split", "1" * 16, "keys<=512 half", {"warps": 4}, {"warps": 4}, 1.0, 1.0, 1.0, 9, 3)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[object, ...]]:
    """What the command asked to have measured; the answer has two rows."""
    asked: list[tuple[object, ...]] = []

    def answer(*what: object) -> list[Tuning]:
        asked.append(what)
        return [Tuning("G", tmp_path / "g.json", (FASTER, SAME))]

    monkeypatch.setattr(Cuda, "unavailable", lambda _self: None)
    monkeypatch.setattr(tune, "_tune", answer)
    return asked


def end_of(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["tune", *words])
    return ended.value.code or 0


def test_the_table(measured: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert end_of(["gpt2", "--precision", "bf16", "--rounds", "5", "--into", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1.25x [1.11, 1.33]" in out
    assert "the same" in out
    assert "1 of 2 differ from what the kernels' rules choose" in out
    assert str(tmp_path / "g.json") in out.replace(" ", "")
    assert measured == [("gpt2", {}, "bf16", BackendRef("engine"), 5, tmp_path)]


@pytest.mark.usefixtures("measured")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(["gpt2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [Tuned.from_dict(row) for row in found["rows"]] == [FASTER, SAME]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gpt2"], "tune gpt2: no CUDA device"),
        (["gpt3"], "gpt3"),
        (["gpt2", "--precision", "bf61"], "bf61"),
        (["gpt2", "--rounds", "0"], "--rounds"),
        (["gpt2", "--backend", "engine[nothing=1]"], "nothing"),
    ],
)
def test_what_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(words) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error


@pytest.mark.usefixtures("measured")
def test_into_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert end_of(["gpt2", "--into", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err
