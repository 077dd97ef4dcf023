"""What the statistics claim on simulated machines whose truth is known, beside two other ways to judge the same rounds.

    python scripts/simulate_machines.py [--trials N] [--into docs/measurement.md] [--figures docs/figures]

Noise: 1% within a process, 2% between generations (of the ratio), and bursts of a busy neighbour. For each number of
generations that a suite may ask for: how often identical code is called different, how often the interval covers the
truth, how often a true 3% is found, and the minimum detectable effect that is printed. Machines have 40 A/A medians of
earlier runs. Beside it a percentile bootstrap over generations, and a rank test over single samples, as asv compares
commits (Mann-Whitney U, p < 0.002). Takes about four minutes.
Figures need matplotlib, which `pip install 'enginebench[plots]'` brings.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import mannwhitneyu

from suites.cli import guard
from suites.cli.scripts import check_page, read_path
from suites.harness.judge import simulate, stats
from suites.harness.present import markdown

GENERATIONS = (2, 3, 4, 5, 6, 8, 10, 20)
ROUNDS, SAMPLES, PAST = 10, 3, 40
FAMILY = 10
"""Comparisons that Holm's rule judges together."""
MARKER = "simulated"
EFFECT = math.log(1.03)


class Row(NamedTuple):
    """What was found with so many generations; shares of the trials."""

    generations: int
    claims: float
    families: float
    covered: float
    found: float
    detectable: float
    bootstrap: float
    ranks: float


COLUMNS = (
    "generations",
    "identical code called different",
    "with Holm, over 10 switches",
    "interval covers the truth",
    "true 3% found",
    "minimum detectable effect",
    "bootstrap: called different",
    "rank test of samples: called different",
)


class Trial(NamedTuple):
    """One comparison of identical code: log-ratios a generation, and all samples of both sides."""

    logs: list[list[float]]
    mine: list[float]
    theirs: list[float]


def trial(generator: np.random.Generator, generations: int) -> Trial:
    """A comparison on the simulated machine; its true log-ratio is 0."""
    found = [simulate.generation(generator, simulate.Noise(), ROUNDS, SAMPLES) for _ in range(generations)]
    mine, theirs = ([value for pair in found for one in pair[side] for value in one] for side in (0, 1))
    return Trial([stats.log_ratios(*pair) for pair in found], mine, theirs)


def bootstrap_claims(generator: np.random.Generator, logs: Sequence[Sequence[float]]) -> bool:
    """Whether the percentile interval of resampled generations excludes 0."""
    medians = np.array([statistics.median(values) for values in logs])
    means = generator.choice(medians, (2000, len(medians))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return not low <= 0 <= high


def row(generations: int, trials: int) -> Row:
    """Simulate one number of generations."""
    generator = np.random.default_rng(generations)
    past = np.array([statistics.median(trial(generator, 1).logs[0]) for _ in range(40 * PAST)])
    claims = covered = found = boot = ranks = 0
    effects, p_values = [], []
    for _ in range(trials):
        one = trial(generator, generations)
        history = stats.spread_of(generator.choice(past, PAST).tolist())
        ratio = stats.ratio(one.logs, history)
        claims += not ratio.low <= 1 <= ratio.high
        moved = stats.ratio([[value + EFFECT for value in values] for values in one.logs], history)
        covered += moved.low <= 1.03 <= moved.high
        found += moved.low > 1
        estimate = stats.estimate(one.logs, history)
        effects.append(stats.detectable(estimate))
        p_values.append(stats.p_value(estimate))
        boot += bootstrap_claims(generator, one.logs)
        ranks += mannwhitneyu(one.mine, one.theirs).pvalue < 0.002
    starts = range(0, trials - FAMILY + 1, FAMILY)
    families = [min(stats.holm(p_values[n : n + FAMILY])) < 0.05 for n in starts]
    return Row(
        generations,
        claims / trials,
        statistics.fmean(families),
        covered / trials,
        found / trials,
        math.expm1(statistics.median(effects)),
        boot / trials,
        ranks / trials,
    )


def draw(rows: Sequence[Row], trials: int, folder: Path) -> None:
    """Three pictures: what each method claims of identical code, what is found, and one machine that was made up."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "enginebench"  # so that the same numbers give the same file
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    def save(name: str, title: str, below: str) -> None:
        plt.suptitle(title, fontsize=11)
        plt.gcf().supxlabel(below, fontsize=10)
        plt.tight_layout()
        plt.savefig(folder / name, metadata={"Date": None})
        plt.close()

    folder.mkdir(parents=True, exist_ok=True)
    numbers = [one.generations for one in rows]
    _, axes = plt.subplots(figsize=(7, 4))
    for name, label in (("ranks", "rank test of samples"), ("bootstrap", "bootstrap"), ("claims", "this harness")):
        shares = np.array([getattr(one, name) for one in rows])
        error = 1.96 * np.sqrt(shares * (1 - shares) / trials)
        axes.plot(numbers, shares, marker="o", label=label)
        axes.fill_between(numbers, shares - error, shares + error, alpha=0.2)
    axes.axhline(0.05, color="black", linestyle=":", label="5%")
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["2%", "5%", "10%", "20%", "50%"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(numbers)
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.62))
    save("claims.svg", "How often identical code is called different", "generations of processes")

    _, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4))
    left.plot(numbers, [100 * one.detectable for one in rows], marker="o")
    left.set_title("difference found nine times in ten (%)", fontsize=10)
    right.plot(numbers, [100 * one.found for one in rows], marker="o", color="tab:orange")
    right.set_title("how often a true 3% is found (%)", fontsize=10)
    for axes in (left, right):
        axes.set_ylim(0)
        axes.set_xticks([2, 5, 10, 15, 20])
    save("power.svg", "What a run of so many generations sees", "generations of processes")

    generator, most = np.random.default_rng(7), 12
    _, axes = plt.subplots(figsize=(7, 4))
    for number in range(5):
        logs = stats.log_ratios(*simulate.generation(generator, simulate.Noise(), 40, SAMPLES))
        places, percent = np.arange(40) + 45 * number, 100 * np.expm1(logs)
        axes.plot(places, np.clip(percent, -most, most), ".", color="tab:blue", markersize=4)
        axes.hlines(np.median(percent), places[0], places[-1], color="tab:red", zorder=3)
    axes.axhline(0, color="black", linestyle=":")
    axes.set_ylim(-most - 1, most + 1)
    axes.set_ylabel("difference (%), bursts cut at the edge")
    save("machine.svg", "Identical code on one such machine: rounds, and the median of each generation", "rounds")


def text(one: Row) -> str:
    """A line of the table."""
    shares = [f"{share:.1%}" for share in one[1:]]
    return "| " + " | ".join([str(one.generations), *shares]) + " |"


def main() -> None:
    """Simulate, then print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="comparisons for each line (4000)")
    parser.add_argument("--into", type=read_path, help="write the table between the markers `simulated` of this file")
    parser.add_argument("--figures", type=read_path, help="draw the pictures into this folder")
    options = parser.parse_args()
    if options.trials < FAMILY:
        parser.error(f"--trials: expected {FAMILY} or more, one family of comparisons, got {options.trials}")
    check_page(options.into, MARKER)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    print("\n".join(lines))
    rows = []
    for generations in GENERATIONS:
        rows.append(row(generations, options.trials))
        lines.append(text(rows[-1]))
        print(lines[-1], flush=True)
    if options.figures:
        draw(rows, options.trials, options.figures)
    if options.into:
        markdown.write_between(options.into, MARKER, "\n".join(lines))


if __name__ == "__main__":
    guard(main, "simulate_machines")
