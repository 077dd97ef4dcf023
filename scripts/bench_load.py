"""What it costs to have a program: time and peak memory of compiling, and of loading a file, each in its own process.

    python scripts/bench_load.py [--models bert,qwen3] [--rounds N] [--into docs/architecture.md]

Torch's export is done before and not counted. Time is that of the process on its core, so what other processes do
does not count: its own, and the system's for it, which hands out memory and copies from its cache of the file. Medians;
the latter changes several times over with how the machine used its memory before. Memory is the highest resident size
minus that before, pages of a mapped file included. Takes about eight minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suites.cli import guard
from suites.cli.scripts import check_models, check_page, positive, read_path
from suites.harness.present import markdown, units
from suites.harness.record import store

MODELS = "bert,qwen3"
MARKER = "load"
WAYS = {
    "compile": "compile, after torch.export",
    "full": "load()",
    "header": 'load(verify="header")',
    "mapped-full": "load(mmap=True)",
    "mapped-header": 'load(verify="header", mmap=True)',
}


def _resident(what: str) -> int:
    """``VmRSS`` or ``VmHWM`` of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) << 10


def _maker(way: str, name: str, path: str) -> Callable[[], Any]:
    """What makes the program, with everything imported that it needs."""
    import engine

    if way != "compile":
        return lambda: engine.load(path, verify=way.removeprefix("mapped-"), mmap=way.startswith("mapped-"))
    import torch

    import engine.exporter  # which compile imports where it is first called
    from suites import models

    torch.set_num_threads(1)
    model, inputs = models.get(name).build()
    exported = engine.exporter.export_with_torch(model, inputs).program
    return lambda: engine.compile(exported, inputs)


def one(way: str, name: str, path: str) -> dict[str, float]:
    """Make the program once, in this process. Compiling writes `path` afterwards."""
    make = _maker(way, name, path)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    resident, before = _resident("VmRSS"), os.times()
    program = make()
    after = os.times()
    found = {"own": after.user - before.user, "system": after.system - before.system}
    found["peak"] = _resident("VmHWM") - resident
    sizes = [value.type.nbytes for value in program.graph.stored_constants()]
    found |= {"weights": sum(sizes), "largest": max(sizes)}
    if way == "compile":
        program.save(path)
    return found


def _run(command: list[str]) -> dict[str, float]:
    """What a process of `one` answers; its error ends the script."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def row(name: str, way: str, rounds: list[dict[str, float]]) -> str:
    """A line of the table: medians of the times, the largest peak."""
    first = rounds[0]
    own, system = (units.seconds(statistics.median(r[what] for r in rounds)) for what in ("own", "system"))
    peak = max(r["peak"] for r in rounds)
    sizes = [units.size(n) for n in (first["weights"], first["largest"], peak)]
    beyond = (peak - first["largest"]) / first["weights"]
    return "| " + " | ".join([name, WAYS[way], own, system, *sizes, f"{beyond:.2f}"]) + " |"


def main() -> None:
    """Measure, then print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS, help=f"names of models of the suites, with commas ({MODELS})")
    parser.add_argument("--rounds", type=positive, default=3, help="processes for each line (3)")
    parser.add_argument("--into", type=read_path, help="write the table between the markers `load` of this file")
    parser.add_argument("--one", nargs=3, metavar=("WAY", "MODEL", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    names = options.models.split(",")
    check_models(parser, names)
    check_page(options.into, MARKER)
    lines = [
        "| model | | own time | the system's | weights | largest of them | peak | (peak - largest) / weights |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            for way in WAYS:
                command = [sys.executable, __file__, "--one", way, name, f"{folder}/{number}.engine"]
                lines.append(row(name, way, [_run(command) for _ in range(options.rounds)]))
                print(lines[-1], flush=True)
    if options.into:
        text = "\n".join(lines)
        markdown.write_between(options.into, MARKER, f"{markdown.heading(store.here())}\n\n{text}")


if __name__ == "__main__":
    guard(main, "bench_load")
