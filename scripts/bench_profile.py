"""What a profile costs a run: the same native run with and without counting ticks, in pairs, in one process.

    python scripts/bench_profile.py [--pairs N] [--into docs/kernels.md]

One thread, its own time on its core, so that processes that push it aside do not count. A sample is as many runs as
take two milliseconds; which of a pair comes first alternates. Both sides make the same call from Python, so short
programs look a little better than they are. Takes about half a minute.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import engine
from suites import models
from suites.cli import guard
from suites.cli.scripts import check_page, positive, read_path
from suites.harness.judge import stats
from suites.harness.present import markdown, units
from suites.harness.record import store

CASES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("mlp", "mlp", {}),
    ("block, 16 tokens", "transformer", {"sequence": 16}),
    ("bert-tiny", "bert-tiny", {}),
    ("block, 128 tokens", "transformer", {"sequence": 128, "width": 512, "heads": 8}),
)
SAMPLE_SECONDS = 2e-3


def calls(name: str, options: dict[str, int]) -> tuple[list[Callable[[], int]], int, object]:
    """A plain run of a model and the same run counted, its number of launches, and what must stay alive meanwhile."""
    model, inputs = models.get(name).build(**options)
    program = engine.compile(model, inputs)
    boundary, target = program._example.boundary, program._example.executable  # noqa: SLF001  # a run without the way into it
    arrays = boundary.unpack(inputs, {})
    outputs = boundary.allocate(arrays)
    plain, counted, kept = target.plain_and_counted(arrays, outputs)
    return [plain, counted], target.count, (program, arrays, outputs, kept)


def sample(call: Callable[[], int], repeats: int) -> float:
    """Seconds of this thread for each of `repeats` runs."""
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats


def measure(plain: Callable[[], int], counted: Callable[[], int], pairs: int) -> tuple[float, list[float]]:
    """(median seconds of a plain run, logarithms of counted over plain)."""
    for call in (plain, counted):
        if status := call():
            raise RuntimeError(f"the run answered {status}")
    repeats = max(1, round(SAMPLE_SECONDS / sample(plain, 5)))
    seconds, logs = [], []
    for pair in range(pairs):
        if pair % 2:
            second, first = sample(counted, repeats), sample(plain, repeats)
        else:
            first, second = sample(plain, repeats), sample(counted, repeats)
        seconds.append(first)
        logs.append(math.log(second / first))
    return statistics.median(seconds), logs


def row(label: str, launches: int, seconds: float, logs: list[float]) -> str:
    """A line of the table: the median ratio and its 95% interval."""
    found = stats.within_process(logs)
    interval = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return f"| {label} | {launches} | {units.seconds(seconds)} | {interval} |"


def main() -> None:
    """Measure, then print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=positive, default=500, help="of samples for each model (500)")
    parser.add_argument("--into", type=read_path, help="write the table between the markers `profile` of this file")
    options = parser.parse_args()
    check_page(options.into, "profile")
    lines = ["| model | launches | plain run | counted / plain [95%] |", "|---|---|---|---|"]
    for label, name, shape in CASES:
        (plain, counted), launches, _alive = calls(name, shape)
        lines.append(row(label, launches, *measure(plain, counted, options.pairs)))
    text = "\n".join(lines)
    print(text)
    if options.into:
        markdown.write_between(options.into, "profile", f"{markdown.heading(store.here())}\n\n{text}")


if __name__ == "__main__":
    guard(main, "bench_profile")
