"""What a person sees while a run goes on: the live table, the bar, and lines that stay above them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from suites.harness.present import progress
from suites.harness.present.progress import LiveReporter, PlainReporter


def drawn(reporter: LiveReporter) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as found:
        console.print(reporter._drawn())
    return found.get()


def reporter() -> LiveReporter:
    return LiveReporter(Console(file=io.StringIO(), force_terminal=True, width=120))


def test_each_backend_of_the_case_in_flight_has_a_row_with_its_state_and_latency() -> None:
    found = reporter()
    found.start(12, "suite mlp")
    found.rows("mlp/b1/t1/fp32", ["eager", "onnxruntime[level=basic]"])
    found.row("eager", "round 2 of 15", 3.78e-6)
    found.advance(3)
    text = drawn(found)
    eager, other = (line for line in text.splitlines() if "│" in line and ("eager" in line or "onnx" in line))
    assert [part.strip() for part in eager.strip("│").split("│")] == ["eager", "round 2 of 15", "3.78 us"]
    assert [part.strip() for part in other.strip("│").split("│")] == ["onnxruntime[level=basic]", "waiting", ""]
    assert "mlp/b1/t1/fp32" in text
    assert "3/12" in text


def test_a_latency_stays_through_the_generations_of_a_case_and_goes_with_it() -> None:
    found = reporter()
    found.rows("first", ["eager"])
    found.row("eager", "round 1 of 15", 3.78e-6)
    found.rows("first", ["eager"])  # the next generation
    found.row("eager", "warm up")
    assert "3.78 us" in drawn(found)
    found.rows("second", ["eager"])
    assert "3.78 us" not in drawn(found)


def test_lines_that_stay_are_printed_as_they_are_and_the_table_goes_when_the_run_ends() -> None:
    stream = io.StringIO()
    with LiveReporter(Console(file=stream, force_terminal=True, width=120)) as found:
        found.start(1, "suite mlp")
        found.rows("case", ["eager"])
        found.say("eager: 1.013 [0.954, 1.075] unclear")
    assert "eager: 1.013 [0.954, 1.075] unclear" in stream.getvalue()


def test_without_a_terminal_there_are_lines_with_the_time_and_what_is_done() -> None:
    stream = io.StringIO()
    found = PlainReporter(stream)
    found.start(4, "suite mlp")
    found.rows("case", ["eager"])
    found.row("eager", "warm up")
    found.advance(2)
    found.say("done")
    assert stream.getvalue().splitlines() == ["[00:00 0/4] suite mlp: 4 worker processes", "[00:00 2/4] done"]


def test_work_of_the_run_that_is_resumed_counts_and_says_nothing_of_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    plain, live = PlainReporter(stream), reporter()
    live._bar.get_time = lambda: now[0]
    for one in (plain, live):
        one.start(16, "suite gpt2", 6)
        one.skip(2)
    for passed in (100.0, 200.0):
        now[0] = passed
        for one in (plain, live):
            one.advance(2)
    assert stream.getvalue().splitlines() == [
        "[00:00 6/16] suite gpt2: 16 worker processes, 6 of them in the run that is resumed",
        "[01:40 10/16] about 5 min left at this pace",
        "[03:20 12/16] about 3 min left at this pace",
    ]
    assert "12/16" in drawn(live)
    assert live._bar.tasks[0].time_remaining == pytest.approx(200)


def test_a_long_case_says_in_a_log_how_long_it_will_take_at_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    found = PlainReporter(stream)
    now[0] = 30.0  # what came before the first worker does not count
    found.start(8, "suite gpt2")
    for passed in (70.0, 150.0, 170.0, 270.0):
        now[0] = passed
        found.advance(2)
    assert stream.getvalue().splitlines() == [
        "[00:30 0/8] suite gpt2: 8 worker processes",
        "[02:30 4/8] about 2 min left at this pace",
    ]


def test_the_bar_knows_how_much_longer_where_a_unit_takes_minutes() -> None:
    found = reporter()
    now = [0.0]
    found._bar.get_time = lambda: now[0]
    found.start(8, "suite gpt2")
    for passed in (100.0, 200.0):
        now[0] = passed
        found.advance(2)
    assert found._bar.tasks[0].time_remaining == pytest.approx(200)
