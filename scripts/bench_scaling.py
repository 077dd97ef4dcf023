"""What a second thread earns, beside what it can earn: one program on two threads, and two copies of it on one each.

    python scripts/bench_scaling.py [--models resnet18,gpt2-decode] [--rounds N] [--into docs/results.md]

Two copies share nothing but the machine. They never wait for each other and have no work to divide, so what they lose
against twice the speed of one copy is lost to the machine: its memory, its caches, its clock, other guests. A program
on two threads loses that as well, and also what it divides badly or waits for. All three take turns, in one process.
NAME-decode is the decoder of a language model, one token a call; NAME-load is engine.load, which checks and packs the
weights of a file that the system has in memory. Takes about six minutes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from suites import models
from suites.cli import guard
from suites.cli.scripts import check_models, check_page, positive, read_path
from suites.harness.judge import stats
from suites.harness.present import markdown
from suites.harness.record import store

MODELS = "minilm,bert,resnet18,resnet50,efficientnet-lite0,gpt2-decode,qwen3-load"
MARKER = "scaling"
DECODE, LOAD = "-decode", "-load"
TURN_SECONDS = 0.1
"""About how long one turn of one contestant takes."""
HEADING = (
    "| model | 2 threads against 1 | two copies against one | 2 threads against two copies |",
    "|---|---|---|---|",
)
LEGEND = (
    "Each number is a ratio of two speeds, with its 95% interval in brackets. The heading names both; above 1, the "
    "first is faster. Each of the two copies has one thread, and the speed of two copies is that of both together."
)
STEPS = 32
"""Tokens that a decoder may write behind its prompt; each turn begins with the prompt again."""


class Runner(NamedTuple):
    """A program on some number of threads. `begin` comes before each turn and is not timed."""

    begin: Callable[[], Any]
    call: Callable[[], Any]
    most_calls: int


def split(name: str) -> tuple[str, str]:
    """The name of a model, and what of it is meant: DECODE, LOAD or nothing, which is a call of its program."""
    end = next((end for end in (DECODE, LOAD) if name.endswith(end)), "")
    return name.removesuffix(end), end


def make_runners(name: str, folder: Path) -> list[Runner]:
    """Two copies of the program of a model on one thread, and one on two threads. A file to load goes into `folder`."""
    import torch

    import engine

    torch.set_num_threads(1)
    model_name, kind = split(name)
    if kind == DECODE:
        model, (ids, *_) = models.get(model_name).build(phase="decode", steps=STEPS)
        token = torch.zeros(model.batch, 1, dtype=torch.int64)

        def decoder(threads: int) -> Runner:
            made = engine.compile_decoder(
                model.cached().eval(), model.max_length, model.batch, engine.Config(threads=threads)
            )
            return Runner(lambda: made.prefill(ids), lambda: made.decode(token), STEPS)

        return [decoder(1), decoder(1), decoder(2)]
    module, inputs = models.get(model_name).build()
    if kind == LOAD:
        path = folder / "program.engine"
        engine.compile(module, inputs).save(path)

        def loader(threads: int) -> Runner:
            return Runner(lambda: None, lambda: engine.load(path, config=engine.Config(threads=threads)), 1)

        return [loader(1), loader(1), loader(2)]

    def program(threads: int) -> Runner:
        made = engine.compile(module, inputs, engine.Config(threads=threads))
        return Runner(lambda: made(*inputs), lambda: made(*inputs), 10_000)

    return [program(1), program(1), program(2)]


def time_together(runners: Sequence[Runner], calls: int) -> float:
    """Seconds a call while all of `runners` call in threads of their own, each `calls` times."""
    barrier = threading.Barrier(len(runners) + 1)

    def work(runner: Runner) -> None:
        runner.begin()
        barrier.wait()
        for _ in range(calls):
            runner.call()

    workers = [threading.Thread(target=work, args=(runner,)) for runner in runners]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - start) / (calls * len(runners))


def measure(name: str, rounds: int, folder: Path) -> list[list[float]]:
    """Seconds a call in each round: one thread, two copies at once, two threads. Who begins changes by round."""
    first, second, both = make_runners(name, folder)
    contestants = ([first], [first, second], [both])
    for runners in contestants:
        time_together(runners, 2)  # plans are made and pages are mapped
    calls = max(1, min(first.most_calls, math.ceil(TURN_SECONDS / time_together([first], 2))))
    found: list[list[float]] = [[] for _ in contestants]
    for turn in range(rounds):
        for number in range(len(contestants)):
            contestant = (turn + number) % len(contestants)
            found[contestant].append(time_together(contestants[contestant], calls))
    return found


def write_row(name: str, one: list[float], copies: list[float], two: list[float]) -> str:
    """A line of the table: three ratios, each from pairs of the same round."""
    pairs = ((one, two), (one, copies), (copies, two))
    ratios = [stats.within_process([math.log(a / b) for a, b in zip(*pair, strict=True)]) for pair in pairs]
    cells = [f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]" for ratio in ratios]
    model, kind = split(name)
    return "| " + " | ".join([model + kind.replace("-", ", "), *cells]) + " |"


def main() -> None:
    """Measure, then print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS, help=f"names with commas ({MODELS})")
    parser.add_argument("--rounds", type=positive, default=40, help="turns of each contestant (40)")
    parser.add_argument("--into", type=read_path, help="write the table between the markers `scaling` of this file")
    options = parser.parse_args()
    names = options.models.split(",")
    check_models(parser, [model for model, _ in map(split, names)])
    for model, kind in map(split, names):
        if kind == DECODE and "phase" not in models.get(model).options:
            parser.error(f"{model}{kind}: {model} generates no text")
    check_page(options.into, MARKER)
    lines = list(HEADING)
    print(*lines, sep="\n", flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(write_row(name, *measure(name, options.rounds, Path(folder))))
        print(lines[-1], flush=True)
    print(f"\n{LEGEND}")
    if options.into:
        text = "\n".join(lines)
        markdown.write_between(options.into, MARKER, f"{markdown.heading(store.here())}\n\n{text}\n\n{LEGEND}")


if __name__ == "__main__":
    guard(main, "bench_scaling")
