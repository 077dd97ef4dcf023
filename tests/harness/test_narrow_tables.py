"""Tables on an output of 40 columns: nothing is cut off, and no line is longer."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from suites.harness.present import timing
from suites.harness.present.ablation_terminal import print_ablation
from suites.harness.record import store
from suites.harness.record.schema import AblationRecord
from suites.harness.run.stopwatch import Stopwatch
from tests.harness.test_command_line import call

COLUMNS = 40


def test_a_profile_fits_a_narrow_output_and_keeps_every_launch(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    status, out, _err = call(capsys, "profile", "mlp", "--set", "widths=16-16-16")
    assert status == 0
    assert max(map(len, out.splitlines())) <= COLUMNS
    assert out.count("kernel: f32_linear__") == 2
    for name in ("output", "us", "time", "GFLOP/s", "GB/s", "of roof", "module", "source"):
        assert out.count(f"  {name}: ") == 2, name
    assert re.search(r"^thread +busy us +idle us +busy$", out, re.MULTILINE)
    monkeypatch.delenv("COLUMNS")
    assert re.search(r"^op +kernel +output", call(capsys, "profile", "mlp")[1], re.MULTILINE)


@pytest.mark.parametrize("suite", ["ablate_transformer", "ablate_threads", "ablate_passes", "ablate_transformer_pairs"])
def test_an_ablation_fits_a_narrow_output_and_keeps_its_numbers(suite, root):
    run = store.read(next(path for path in store.all_run_files(root / "results") if path.stem.endswith(f"_{suite}")))
    texts = {}
    for columns in (COLUMNS, 200):
        stream = io.StringIO()
        console = Console(file=stream, width=columns, color_system=None)
        print_ablation(console, run.of(AblationRecord), run.environment, run.started)
        texts[columns] = stream.getvalue()
    assert "\u2026" not in texts[COLUMNS]
    assert max(map(len, texts[COLUMNS].splitlines())) <= COLUMNS
    intervals = [re.findall(r"\[\d+\.\d+, \d+\.\d+\]", " ".join(text.split())) for text in texts.values()]
    assert len(intervals[0]) > 0
    assert all(interval in intervals[1] for interval in intervals[0])


def test_the_times_of_phases_fit_a_narrow_output():
    watch = Stopwatch()
    watch.add("once a machine, and a phase of a long name", 30.0)
    watch.add("reference", 10.0)
    stream = io.StringIO()
    timing.print_timing(Console(file=stream, width=COLUMNS, color_system=None), watch)
    assert max(map(len, stream.getvalue().splitlines())) <= COLUMNS
    assert "once a machine, and a phase of a long name time: 30.0 s share: 75%" in " ".join(stream.getvalue().split())
