"""Draws tokens from logits: temperature, then top_k, then top_p, then one random number for each text.

Everything is computed in float64 with NumPy. Global generators of random numbers have no effect and are not changed.
Needs no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from engine.errors import ConfigError, ExecutionError


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn from logits.

    `temperature` is above 0. `top_k` and `top_p`, in (0, 1], limit the tokens as `probabilities` says; None keeps all
    of them. Without a `seed` the operating system chooses one.
    """

    temperature: float
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


def check_sampling(temperature: Any, top_k: Any, top_p: Any, seed: Any) -> Sampling | None:
    """Check the sampling arguments of a generation; None if the most likely token is to be chosen.

    Raises ConfigError for a value that is not allowed, and for a filter or a seed without a temperature (no effect).
    """
    for name, value, is_valid, expected in (
        (
            "temperature",
            temperature,
            _is_number(temperature) and 0 <= temperature < math.inf,
            "finite number from 0 on",
        ),
        ("top_k", top_k, is_whole_number(top_k) and top_k >= 1, "whole number from 1 on"),
        ("top_p", top_p, _is_number(top_p) and 0 < top_p <= 1, "number above 0 and up to 1"),
        ("seed", seed, is_whole_number(seed) and seed >= 0, "whole number from 0 on"),
    ):
        if value is not None and not is_valid:
            raise ConfigError(f"{name}: expected a {expected}, or None, got {value!r}")
        if value is not None and temperature is None:
            raise ConfigError(
                f"{name}: got {value!r} without a temperature, so the most likely token is chosen and {name} has no "
                "effect; give temperature=1.0 to sample"
            )
    if not temperature:  # dividing by a number near 0 leaves only the most likely token
        return None
    return Sampling(
        float(temperature),
        None if top_k is None else int(top_k),
        None if top_p is None else float(top_p),
        None if seed is None else int(seed),
    )


def is_whole_number(value: object) -> bool:
    """True for integers of Python and NumPy; a bool is no number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def probabilities(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The probability of each token after all filters, float64 [vocab]: their sum is 1; tokens that are dropped have 0.

    The logits, of any floating type, are divided by `temperature`; one of -inf gives probability 0. Then the `top_k`
    most likely tokens are kept. Of these, the fewest most likely tokens are kept whose probabilities, which sum to 1
    over the tokens kept so far, reach `top_p`. Of equally likely tokens the smaller id counts as the more likely one.

    Raises ExecutionError if the logits hold NaN or +inf, or nothing but -inf.
    """
    scores = logits.astype(np.float64)
    highest = scores.max()
    if not np.isfinite(highest):
        raise ExecutionError(f"cannot sample: the largest logit is {highest}; the model computed NaN or infinities")
    with np.errstate(over="ignore"):  # a tiny temperature makes -inf, whose probability is 0
        weights = np.exp((scores - highest) / sampling.temperature)
    if sampling.top_k is not None and sampling.top_k < len(weights):
        weights = _keep(weights, _most_likely(scores, sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        # Together, tokens below this bound have less than 1 - top_p of the probability, so top_p removes all of them.
        # They need not be sorted, which takes most of the time for a large vocabulary.
        bound = (1 - sampling.top_p) * weights.sum() / len(weights)
        candidates = np.flatnonzero(weights >= bound)
        order = candidates[np.argsort(-scores[candidates], kind="stable")]
        sums = np.cumsum(weights[order])
        count = int(np.searchsorted(sums, sampling.top_p * weights.sum())) + 1
        weights = _keep(weights, order[:count])
    result: np.ndarray = weights / weights.sum()
    return result


def _most_likely(scores: np.ndarray, count: int) -> np.ndarray:
    """Ids of the `count` largest scores, fewer than there are; of equal scores the smaller ids."""
    least = np.partition(scores, -count)[-count]
    above = np.flatnonzero(scores > least)
    return np.concatenate([above, np.flatnonzero(scores == least)[: count - len(above)]])


def _keep(weights: np.ndarray, ids: np.ndarray) -> np.ndarray:
    kept = np.zeros_like(weights)
    kept[ids] = weights[ids]
    return kept


class Sampler:
    """Draws the tokens of one generation. Each text has a generator of its own.

    Text number `row` takes its numbers from ``numpy.random.PCG64(SeedSequence(seed, spawn_key=(row,)))``, one for each
    token. So the draws of a text do not depend on the number of other texts or on their lengths.
    """

    def __init__(self, sampling: Sampling, batch: int) -> None:
        self._sampling = sampling
        self._generators = [np.random.PCG64(s) for s in np.random.SeedSequence(sampling.seed).spawn(batch)]

    def draw(self, row: int, logits: np.ndarray) -> int:
        """The next token of text `row`, from its logits [vocab]. Raises as `probabilities`.

        It is the first token, in the order of ids, at which the sum of probabilities exceeds a number that is uniform
        in [0, 1).
        """
        sums = np.cumsum(probabilities(logits, self._sampling))
        uniform = (int(self._generators[row].random_raw()) >> 11) * 2.0**-53
        # The last sum may be rounded to less than 1. The number stays below it, so that a token is found.
        return int(np.searchsorted(sums, min(uniform, np.nextafter(sums[-1], 0)), side="right"))
