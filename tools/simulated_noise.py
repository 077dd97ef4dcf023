"""Noisy machines that never existed: rounds of two backends whose true speed is known, to hold the statistics against.

Pure functions of a random generator; knows the shape of a record's rounds and nothing of how rounds are judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Noise:
    """What disturbs times, as logarithms: 0.01 is one percent.

    Attributes:
        sample: standard deviation of one sample within a process.
        process: standard deviation of the log-speed of two backends from one process generation to the next: memory
            layout, placement on the machine, code that was compiled anew.
        burst: probability that a neighbour begins to disturb at any sample.
        burst_length: samples that it goes on for, on average.
        burst_size: how much slower it makes each, on average (exponential).
    """

    sample: float = 0.01
    process: float = 0.02
    burst: float = 0.01
    burst_length: float = 8.0
    burst_size: float = 0.3


def bursts(generator: np.random.Generator, noise: Noise, count: int) -> np.ndarray:
    """How much slower each of `count` samples in a row is, float64 [count]."""
    found = np.zeros(count)
    for start in np.flatnonzero(generator.random(count) < noise.burst):
        end = start + generator.geometric(1 / noise.burst_length)
        found[start:end] = np.maximum(found[start:end], generator.exponential(noise.burst_size))
    return found


def generation(
    generator: np.random.Generator, noise: Noise, rounds: int, samples: int, true: float = 0.0
) -> tuple[list[list[float]], list[list[float]]]:
    """Rounds of a backend and of the baseline in one generation of processes, in seconds.

    The two take turns within a round in random order, so a burst may hit one of them, or both.

    Args:
        generator: source of randomness.
        noise: the machine.
        rounds: how many.
        samples: timed ones of each backend in a round.
        true: logarithm of the true speed.
    """
    offset = true + generator.normal(0.0, noise.process)
    slow = bursts(generator, noise, 2 * rounds * samples).reshape(rounds, 2, samples)
    times = generator.normal(0.0, noise.sample, (rounds, 2, samples)) + slow
    turned = generator.random(rounds) < 0.5  # who comes first
    times[turned] = times[turned][:, ::-1]
    times[:, 0] -= offset
    seconds = np.exp(times) * 1e-3
    return seconds[:, 0].tolist(), seconds[:, 1].tolist()
