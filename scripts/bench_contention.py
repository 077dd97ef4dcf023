"""What a busy neighbour costs: every backend at 1 and 2 threads, alone and with a busy loop pinned to one core.

    python scripts/bench_contention.py [--rounds N] [--only BACKEND ...] [--json FILE] [--into README.md]

Each backend and number of threads has a process of its own, which the system may place as it likes on two cores; the
busy loop may run on the first of these only. A round asks every process in turn, first alone and then beside the loop,
so what changes over minutes hits all of them. Takes about six minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from engine.processors import allowed_processors
from suites import backends
from suites.cli import guard
from suites.cli.scripts import check_page, positive, read_path
from suites.harness.declare.case import BackendRef, Case
from suites.harness.files import write_text_file
from suites.harness.judge import stats
from suites.harness.present import markdown
from suites.harness.record import store
from suites.harness.run.session import Worker, WorkerFailed, scratch_folder

MODELS: tuple[tuple[str, dict[str, int], dict[str, int]], ...] = (
    ("transformer", {"batch": 1, "sequence": 128}, {"width": 512, "heads": 8}),
    ("bert", {"batch": 1, "sequence": 128}, {}),
)
MARKER = "contention"
THREADS = (1, 2)
TURN_SECONDS = 0.5
"""About how long one process is sampled in one turn: many scheduler slices."""
MOST_SAMPLES = 20
Times = dict[tuple[str, int, bool], list[list[float]]]
"""(backend, threads, beside the loop) -> rounds of samples, seconds a call."""


@contextmanager
def busy_loop(cpu: int) -> Iterator[None]:
    """A process that burns one core."""
    code = f"import os\nos.sched_setaffinity(0, [{cpu}])\nprint(flush=True)\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None  # noqa: S101  # asked for above
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def measure(model: str, shape: dict[str, int], options: dict[str, int], names: list[str], rounds: int) -> Times:
    """All samples of one model; backends that fail are left out, with their reason on standard error."""
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        workers: dict[tuple[str, int], tuple[Worker, int]] = {}
        for threads in THREADS:
            case = Case(model, shape, threads, options=options)
            for name in names:
                scratch = scratch_folder(Path(folder), f"{len(workers)}_{threads}")
                worker = stack.enter_context(Worker(case, BackendRef.parse(name), scratch, Path(folder), pinned=False))
                try:
                    for command in ("load", "prepare"):
                        worker.ask(command, 120)
                    warm = worker.ask("warm", 60)
                except WorkerFailed as failure:
                    print(f"{model}, {name}, {threads} threads: {failure.reason}", file=sys.stderr)
                    continue
                sample = warm["per_call_s"] * warm["inner"]
                workers[name, threads] = worker, max(2, min(MOST_SAMPLES, int(TURN_SECONDS / sample)))
        for _ in range(rounds):
            for beside in (False, True):
                with ExitStack() as neighbour:
                    if beside:
                        neighbour.enter_context(busy_loop(allowed_processors()[0]))
                        time.sleep(0.05)
                    for (name, threads), (worker, count) in workers.items():
                        seconds = worker.ask("sample", 120, count=count)["seconds"]
                        times.setdefault((name, threads, beside), []).append(seconds)
    return times


def rows(model: str, times: Times) -> list[dict[str, Any]]:
    """One row a backend, number of threads and situation: median, ratio to its own 1 thread alone, speed-up."""
    found = []
    for (name, threads, beside), samples in sorted(times.items()):
        alone = times.get((name, 1, False))
        single = times.get((name, 1, beside)) if threads > 1 else None
        row: dict[str, Any] = {"model": model, "backend": name, "threads": threads, "busy_loop": beside}
        row["seconds"] = statistics.median(value for turn in samples for value in turn)
        row["ratio_to_1_thread_alone"] = (
            math.exp(statistics.median(stats.log_ratios(samples, alone))) if alone else None
        )
        row["speedup"] = row["speedup_low"] = row["speedup_high"] = None
        if single:
            gain = stats.within_process(stats.log_ratios(single, samples))
            row |= {"speedup": gain.value, "speedup_low": gain.low, "speedup_high": gain.high}
        found.append(row)
    return found


def write_table(table: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [
        "| model | backend | threads | busy loop | median ms | of own 1 thread alone | 2 threads against 1 [95%] |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in table:
        ratio = "-" if row["ratio_to_1_thread_alone"] is None else f"{row['ratio_to_1_thread_alone']:.2f}"
        gain = (
            "-"
            if row["speedup"] is None
            else f"{row['speedup']:.2f}x [{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]"
        )
        busy = "on one core" if row["busy_loop"] else "none"
        cells = (row["model"], row["backend"], row["threads"], busy, f"{row['seconds'] * 1e3:.3f}", ratio, gain)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines.append("")
    lines.append("ms and ratio: lower is better; 2 threads against 1 in the same situation: higher is better.")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=5, help="rounds for each model (5)")
    parser.add_argument("--only", nargs="+", metavar="BACKEND", help="these backends; default: all that are installed")
    parser.add_argument("--models", nargs="+", choices=[name for name, _, _ in MODELS], help="default: both")
    parser.add_argument("--json", type=read_path, help="write the rows here")
    parser.add_argument("--into", type=read_path, help="write the table between the markers `contention` of this file")
    arguments = parser.parse_args()
    candidates = arguments.only or ["engine", "eager", "torch_compile", "onnxruntime", "openvino"]
    for name in candidates:
        backends.check(BackendRef.parse(name))
    names = [name for name in candidates if backends.unavailable(BackendRef.parse(name)) is None]
    check_page(arguments.into, MARKER)
    cores = allowed_processors()
    if len(cores) < 2 or not hasattr(os, "sched_setaffinity"):
        sys.exit("needs two cores to contend for, and a system that lets processes be placed")
    os.sched_setaffinity(0, cores[:2])  # workers inherit it
    table: list[dict[str, Any]] = []
    for name, shape, options in MODELS:
        if not arguments.models or name in arguments.models:
            table += rows(name, measure(name, shape, options, names, arguments.rounds))
    print(write_table(table))
    if arguments.json:
        write_text_file(arguments.json, json.dumps(table, indent=1) + "\n")
    if arguments.into:
        heading = markdown.heading(store.here())
        markdown.write_between(arguments.into, MARKER, f"{heading}\n\n{write_table(table)}")


if __name__ == "__main__":
    guard(main, "bench_contention")
