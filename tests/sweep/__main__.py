"""Every operator of torch's own database against eager PyTorch.

    python -m tests.sweep [--operators NAME,...] [--types NAME,...] [--sizes fixed,auto,range] [--samples N] [--jobs N]
                          [--into docs/reliability.md] [--capsules FOLDER]

Ends with status 1 where a result was wrong or an error was no refusal. See docs/reliability.md.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import torch

import engine
from engine.suggest import find_nearest
from suites.harness.present import markdown
from suites.harness.record import machine
from suites.harness.record.schema import Provenance
from tests.sweep.check import SIZES, Outcome, check_operator
from tests.sweep.samples import OPERATORS, find_sample

_TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
_COUNTED = {
    "right": "programs, right",
    "calls": "further calls, right",
    "guarded": "further calls, refused",
    "refused": "refused by compile",
    "skipped": "skipped",
    "wrong": "wrong",
}
"""What an `Outcome` counts, and the title of its column."""

_CHUNK = 100

Task = tuple[str, str, str, int]
"""Operator, element type, kind of sizes, number of samples."""
Failing = tuple[str, str, int]
"""Operator, element type and number of a sample."""


def _sweep(tasks: list[Task], jobs: int) -> tuple[dict[tuple[str, str], Counter[str]], list[str], list[Failing]]:
    """Counts by type and kind of sizes, all findings, and samples. `operators` counts those of which one was right."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    findings: list[str] = []
    failing: list[Failing] = []
    # Processes keep what torch caches, so each chunk of tasks has new ones. `max_tasks_per_child` can block for ever.
    for first in range(0, len(tasks), _CHUNK):
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            futures = {pool.submit(check_operator, *task): task for task in tasks[first : first + _CHUNK]}
            for future in as_completed(futures):
                operator, dtype, sizes, _ = futures[future]
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    died = f"a process died at {operator}, {dtype}, sizes {sizes}, or at what ran beside it"
                    outcome = Outcome(Counter(wrong=1), [died])
                row = counts.setdefault((dtype, sizes), Counter())
                row.update(outcome.counts)
                row["operators"] += outcome.counts["right"] > 0
                findings += outcome.findings
                failing += [(operator, dtype, number) for number in outcome.failing]
                for text in outcome.findings:
                    print(text, flush=True)
        if sys.stderr.isatty():
            print(f"{min(first + _CHUNK, len(tasks))} of {len(tasks)}", end="\r", file=sys.stderr, flush=True)
    return counts, findings, failing


def _minify(samples: list[Failing], folder: Path) -> None:
    """Write a capsule of each sample."""
    folder.mkdir(parents=True, exist_ok=True)
    for operator, dtype, number in samples:
        sample, path = (
            find_sample(operator, getattr(torch, dtype), number),
            folder / f"{operator}-{dtype}-{number}.capsule",
        )
        for kind in ("wrong", "error"):
            try:
                found = engine.minify(sample.model(), (sample.inputs(),), kind, capsule=path)
            except engine.EngineError as error:
                print(f"{path.stem}: {str(error).splitlines()[0]}")
            else:
                print(f"{path}: {found}")
                break


def _write_table(counts: dict[tuple[str, str], Counter[str]]) -> str:
    titles = ("element type", "sizes", "operators", *_COUNTED.values())
    lines = [f"| {' | '.join(titles)} |", f"|---|---|{'---:|' * (len(titles) - 2)}"]
    lines += [
        f"| {dtype} | {sizes} | {row['operators']} | " + " | ".join(f"{row[name]:,}" for name in _COUNTED) + " |"
        for (dtype, sizes), row in sorted(counts.items(), key=lambda item: (SIZES.index(item[0][1]), item[0][0]))
    ]
    return "\n".join(lines)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--operators", default=",".join(OPERATORS), help="names as torch has them; all if left out")
    parser.add_argument("--types", default=",".join(_TYPES), help="element types of the inputs")
    parser.add_argument("--sizes", default=SIZES[0], help=f"how sizes vary: {', '.join(SIZES)}")
    parser.add_argument("--samples", type=_count, default=4, help="about how many of each operator and type")
    parser.add_argument("--jobs", type=_count, default=2, help="processes")
    parser.add_argument("--capsules", type=Path, help="folder for a capsule of each sample that is wrong or failed")
    parser.add_argument("--into", type=Path, help="a page between whose markers the table goes")
    options = parser.parse_args()
    for name, known in (("operators", OPERATORS), ("types", _TYPES), ("sizes", SIZES)):
        given = list(dict.fromkeys(getattr(options, name).split(",")))
        setattr(options, name, given)
        for one in given:
            if one not in known:
                near = find_nearest(one, known)
                parser.error(f"--{name}: {one!r} is unknown" + (f"; did you mean {near!r}?" if near else ""))
    if options.into and not (options.into.is_file() and "<!-- sweep -->" in options.into.read_text()):
        parser.error(f"--into: {options.into} is no page with a line <!-- sweep -->")
    return options


def main() -> int:
    """Run the sweep that the command line asks for."""
    options = _parse()
    tasks = [
        (operator, dtype, sizes, options.samples)
        for sizes in options.sizes
        for dtype in options.types
        for operator in options.operators
    ]
    counts, findings, failing = _sweep(tasks, options.jobs)
    text = _write_table(counts)
    print(text)
    if options.into:
        heading = markdown.heading(Provenance(**machine.environment()))
        markdown.write_between(options.into, "sweep", f"{heading}\n\n{text}")
    if options.capsules:
        _minify(failing, options.capsules)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
