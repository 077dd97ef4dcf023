"""What the statistics claim on simulated machines whose truth is known, beside two other ways to judge the same rounds.

    python -m tools.simulate_machines

Noise: 1% within a process, 2% between generations (of the speed), and bursts of a busy neighbour. For each number of
generations that a suite may ask for: how often identical code is called different, how often the interval covers the
truth, how often a true 3% is found, and the minimum detectable effect that is printed. Machines have 40 A/A medians of
earlier runs. Beside it a percentile bootstrap over generations, and a rank test over single samples, as asv compares
commits (Mann-Whitney U, p < 0.002). Takes about four minutes. Prints a table and draws docs/figures/claims.svg, for
which matplotlib is needed (`pip install 'enginebench[plots]'`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator
from scipy.stats import mannwhitneyu

from suites.cli.scripts import make_parser
from suites.harness.judge import stats
from suites.harness.present import markdown
from tools import simulated_noise

PICTURE = Path(__file__).resolve().parents[1] / "docs/figures/claims.svg"
GENERATIONS = (2, 3, 4, 5, 6, 8, 10, 20)
TRIALS = 4000
ROUNDS, SAMPLES, PAST = 10, 3, 40
FAMILY = 10
"""Comparisons that Holm's rule judges together."""
EFFECT = math.log(1.03)
HARNESS = "identical code called different"
BOOTSTRAP = "bootstrap: called different"
RANKS = "rank test of samples: called different"


def compare(generator: np.random.Generator, generations: int) -> tuple[list[list[float]], np.ndarray]:
    """A comparison of identical code on the simulated machine: log-speeds of each generation, samples of both sides."""
    found = [
        simulated_noise.generation(generator, simulated_noise.Noise(), ROUNDS, SAMPLES) for _ in range(generations)
    ]
    return [stats.log_speeds(*pair) for pair in found], np.array(found).swapaxes(0, 1).reshape(2, -1)


def bootstrap_claims(generator: np.random.Generator, logs: Sequence[Sequence[float]]) -> bool:
    """Whether the percentile interval of resampled generations excludes 0."""
    medians = np.array([statistics.median(values) for values in logs])
    means = generator.choice(medians, (2000, len(medians))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return not low <= 0 <= high


def judge(generations: int, trials: int = TRIALS) -> dict[str, float]:
    """Heading -> share of the trials, with so many generations."""
    generator = np.random.default_rng(generations)
    past = np.array([statistics.median(compare(generator, 1)[0][0]) for _ in range(40 * PAST)])
    answers, effects, p_values = [], [], []
    for _ in range(trials):
        logs, samples = compare(generator, generations)
        history = stats.spread_of(generator.choice(past, PAST).tolist())
        speed = stats.speed(logs, history)
        moved = stats.speed([[value + EFFECT for value in values] for values in logs], history)
        estimate = stats.estimate(logs, history)
        effects.append(stats.detectable(estimate))
        p_values.append(stats.p_value(estimate))
        answers.append(
            {
                HARNESS: not speed.low <= 1 <= speed.high,
                "interval covers the truth": moved.low <= 1.03 <= moved.high,
                "true 3% found": moved.low > 1,
                BOOTSTRAP: bootstrap_claims(generator, logs),
                RANKS: mannwhitneyu(*samples).pvalue < 0.002,
            }
        )
    families = [min(stats.holm(p_values[n : n + FAMILY])) < 0.05 for n in range(0, trials, FAMILY)]
    return {
        **{name: statistics.fmean(one[name] for one in answers) for name in answers[0]},
        "with Holm, over 10 switches": statistics.fmean(families),
        "minimum detectable effect": math.expm1(statistics.median(effects)),
    }


def draw(rows: Mapping[int, Mapping[str, float]]) -> None:
    """What each method claims of identical code, with the 95% intervals of the shares."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "enginebench"  # so that the same numbers give the same file
    _, axes = plt.subplots(figsize=(7, 4))
    for name, label in ((RANKS, "rank test of samples"), (BOOTSTRAP, "bootstrap"), (HARNESS, "this harness")):
        shares = np.array([row[name] for row in rows.values()])
        error = 1.96 * np.sqrt(shares * (1 - shares) / TRIALS)
        axes.plot([*rows], shares, marker="o", label=label)
        axes.fill_between([*rows], shares - error, shares + error, alpha=0.2)
    axes.axhline(0.05, color="black", linestyle=":", label="5%")
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["2%", "5%", "10%", "20%", "50%"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks([*rows])
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.62))
    plt.suptitle("How often identical code is called different", fontsize=11)
    plt.gcf().supxlabel("generations of processes", fontsize=10)
    plt.tight_layout()
    plt.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Simulate, print the table, and draw the picture."""
    make_parser(__doc__).parse_args()
    rows = {generations: judge(generations) for generations in GENERATIONS}
    lines = [[str(generations), *(f"{share:.1%}" for share in row.values())] for generations, row in rows.items()]
    print(markdown.pipes([["generations", *rows[GENERATIONS[0]]], *lines]))
    draw(rows)


if __name__ == "__main__":
    main()
