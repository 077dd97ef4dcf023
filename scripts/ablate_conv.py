"""Every variant of convolution on every distinct layer of a network, and on the network as a whole. Prints two tables.

    python scripts/ablate_conv.py [MODEL ...]

Layers: core time of a launch inside of whole runs, which alternate between the variants; over that of `direct`, with
its 95% interval; below 1 the variant is faster. A variant that cannot run a layer reads `-`. `*`: what the cost model
chose; `!`: another one was faster, beyond the interval. The whole: as a suite measures, isolated and interleaved, with
errors against float64.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

import engine
import suites
from engine.exporter import export_with_torch
from suites import models
from suites.cli import guard, scripts
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.present import rows, units
from suites.harness.record.schema import Ratio

ROUNDS = 25
CELLS = {
    "program": rows.write_text("backend"),
    "latency": rows.write_latency,
    "speed vs the choice": rows.write_speed,
    "error": rows.write_error,
    "peak memory": rows.write_size("run_peak_rss_bytes"),
}
CAPTION = "error: relative, against float64; memory above the imports, nothing exported"
VARIANTS = ("direct", "winograd2", "winograd4")
Times = dict[str, dict[str, list[float]]]  # layer -> variant -> seconds, one a round


def layers(program: Any) -> list[str]:
    """What each convolution of the program is, in order."""
    found = []
    for node in program.lowered.nodes:
        if node.op.name == "conv":
            x, weight = node.operand("x").shape, node.operand("weight").shape
            kernel = "x".join(map(str, weight[2:]))
            found.append(f"{kernel}/{node.attributes['stride'][0]} {weight[1]} to {weight[0]}, {x[1]}x{x[2]}")
    return found


def measured(model: str) -> tuple[Times, Counter[str], dict[str, str]]:
    """Times, how often each layer occurs, and the variant that each gets by itself."""
    module, inputs = models.get(model).build()
    exported = export_with_torch(module, inputs).program
    configs = {"": engine.Config()} | {v: engine.Config(variant={"conv": v}) for v in VARIANTS}
    programs = {v: engine.compile(exported, inputs, config=configs[v]) for v in configs}
    names, times, chosen = layers(programs[""]), defaultdict[str, dict[str, list[float]]](dict), dict[str, str]()
    for _ in range(ROUNDS):
        for label, program in programs.items():
            found = defaultdict[tuple[str, str], list[float]](list)
            nodes = [n for n in program.profile(*inputs, runs=1, roofs=False).nodes if n.op == "conv"]
            for name, node in zip(names, nodes, strict=True):
                variant = node.kernel.rsplit("_", 1)[1]
                found[name, variant].append(node.seconds)
                if not label:
                    chosen[name] = variant
            for (name, variant), seconds in found.items():
                if variant == label:
                    times[name].setdefault(variant, []).append(statistics.median(seconds))
    return times, Counter(names), chosen


def against(seconds: Sequence[float], base: Sequence[float]) -> Ratio:
    """Median ratio and its 95% interval, from pairs of one round."""
    return stats.within_process([math.log(a / b) for a, b in zip(seconds, base, strict=True)])


def check_models(names: Sequence[str]) -> None:
    """UsageError for a model whose program has no convolution: its tables would be empty."""
    for name in names:
        module, inputs = models.get(name).build()
        if not layers(engine.compile(module, inputs)):
            raise UsageError(f"{name}: its program has no convolution; name another model")


def print_layers(console: Console, model: str) -> None:
    """Print the table of the layers, in the order of the network."""
    times, count, chosen = measured(model)
    lines = [["layer", "times", *VARIANTS]]
    for name, variants in times.items():
        if "direct" not in variants:
            continue
        spans = {v: against(seconds, variants["direct"]) for v, seconds in variants.items()}
        best = min(spans, key=lambda v: spans[v].value)
        beaten = best != chosen[name] and spans[best].high < spans[chosen[name]].low
        cells = []
        for v in VARIANTS:
            ratio = "{value:.2f} [{low:.2f}, {high:.2f}]".format(**asdict(spans[v])) if v in spans else "-"
            time = f"{units.seconds(statistics.median(variants[v]))}  " if v == "direct" else ""
            mark = (" *!" if beaten else " *") if v == chosen[name] else ""
            cells.append(f"{time}{ratio if v != 'direct' else ''}{mark}")
        lines.append([name, str(count[name]), *cells])
    rows.print_rows(console, lines, f"{model}: each layer, one thread", "time over direct [95%]")


def print_whole(console: Console, model: str) -> None:
    """Print the network by each variant, measured as in a suite."""
    labels = ["engine", *(f"engine[variant.conv={v}]" for v in VARIANTS)]
    outcome = scripts.measured("ablate_conv", [*labels, "eager"], [{"name": model}], baseline="engine")
    lines = rows.write_lines(rows.read_rows(suites.load_runs(outcome.path)), CELLS)
    rows.print_rows(console, lines, f"{model}: the whole", CAPTION)


def main() -> None:
    """Take each model apart and print its table."""
    chosen = scripts.chosen_models(__doc__, ("resnet18", "resnet50"))
    check_models(chosen)
    for chosen_model in chosen:
        print_layers(Console(width=120), chosen_model)
        print_whole(Console(width=120), chosen_model)


if __name__ == "__main__":
    guard(main, "ablate_conv")
