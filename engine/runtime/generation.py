"""Generation of text from logits: which token follows, when a text has ended, what is returned.

Knows no program and no cache; `engine.runtime.decoder` runs the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import ConfigError, InternalError
from engine.runtime.sampling import Sampler, Sampling, is_whole_number

PADDING = 0  # the id behind the end of a text


@dataclass(frozen=True)
class Options:
    """How tokens are chosen and when a text ends, checked by `check_options`.

    `eos` are ids and `stop` are sequences of ids, int64 [length], that end a text. `sampling` None chooses the most
    likely token.
    """

    max_new_tokens: int
    eos: frozenset[int]
    stop: tuple[np.ndarray, ...]
    sampling: Sampling | None
    return_logits: bool


def check_options(
    vocabulary: int,
    max_new_tokens: Any,
    *,
    eos_token_id: Any,
    stop: Any,
    sampling: Sampling | None,
    return_logits: bool,
) -> Options:
    """Check the arguments of `Decoder.generate` that say when a text ends, for a model with `vocabulary` token ids.

    Raises a ConfigError that names the argument, the values that are allowed and the one that came.
    """
    if not is_whole_number(max_new_tokens) or max_new_tokens < 1:
        raise ConfigError(f"max_new_tokens: expected a whole number from 1 on, got {max_new_tokens!r}")
    allowed = f"token ids from 0 to {vocabulary - 1}"
    eos: list[int] = []
    if eos_token_id is not None:
        checked = _token_ids(eos_token_id, vocabulary, or_one=True)
        if checked is None:
            raise ConfigError(f"eos_token_id: expected one or several {allowed}, or None, got {eos_token_id!r}")
        eos = checked.tolist()
    sequences = []
    for sequence in () if stop is None else stop if isinstance(stop, Iterable) else (stop,):
        checked = _token_ids(sequence, vocabulary)
        if checked is None:
            raise ConfigError(
                f"stop: expected a list of sequences of {allowed}, such as [[13, 10]], or None, got {stop!r}; "
                "encode texts with the tokenizer of the model"
            )
        sequences.append(checked)
    return Options(int(max_new_tokens), frozenset(eos), tuple(sequences), sampling, return_logits)


def _token_ids(values: Any, vocabulary: int, *, or_one: bool = False) -> np.ndarray | None:
    """`values` as int64 [1 or more]; None if they are anything but a sequence of ids, or one id with `or_one`."""
    array = to_int64(values)
    if or_one and array is not None and array.ndim == 0:
        array = array[None]
    if array is None or array.ndim != 1 or not array.size or array.min() < 0 or array.max() >= vocabulary:
        return None
    return array


def to_int64(values: Any) -> np.ndarray | None:
    """A copy of `values` as int64; None if they are no whole numbers. Floats are not rounded; a bool is no number."""
    if _has_bool(values):
        return None
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(np.int64) if array.dtype.kind in "iu" else None


def _has_bool(values: Any) -> bool:
    """True if one of `values` is a bool, which NumPy makes a number of if another one is a number."""
    if isinstance(values, list | tuple):
        return any(map(_has_bool, values))
    return isinstance(values, bool) or str(getattr(values, "dtype", "")).endswith("bool")


class Texts:
    """The texts of one generation.

    `ids` are the prompts, int64 [batch, length], of `lengths`, int64 [batch]; ids behind the end of a prompt are
    ignored. `is_finished`, bool [batch], is true for each text that has ended.
    """

    def __init__(self, ids: np.ndarray, lengths: np.ndarray, options: Options) -> None:
        batch, self._width = ids.shape
        self._options = options
        self._sampler = None if options.sampling is None else Sampler(options.sampling, batch)
        self._ends = lengths.copy()
        self._ids = np.full((batch, self._width + options.max_new_tokens), PADDING, np.int64)
        for row, end in enumerate(lengths):
            self._ids[row, :end] = ids[row, :end]
        self._steps = 0
        self._logits: list[np.ndarray] = []
        self.is_finished = np.zeros(batch, bool)

    @property
    def is_complete(self) -> bool:
        """True if no text gets another token."""
        return self._steps == self._options.max_new_tokens or bool(self.is_finished.all())

    @property
    def needs_logits(self) -> bool:
        """False if the most likely token of each text is all that is asked for."""
        return self._sampler is not None or self._options.return_logits

    def append(self, logits: np.ndarray | None, chosen: np.ndarray | None = None) -> np.ndarray:
        """Choose a token for each text that has not ended and append it.

        `logits` are float [batch, vocab]; None if they are not needed. `chosen` is then the most likely token of each
        text, int64 [batch]. Returns the tokens, int64 [batch], with `PADDING` for texts that had ended before.

        Raises ExecutionError if no token can be drawn from the logits.
        """
        if self._options.return_logits and logits is not None:
            self._logits.append(np.where(self.is_finished[:, None], 0, logits).astype(logits.dtype))
        active = np.flatnonzero(~self.is_finished)
        tokens = np.full(len(self._ids), PADDING, np.int64)
        if chosen is not None:
            tokens[active] = chosen[active]
        elif logits is None:
            raise InternalError("append: neither logits nor tokens are given")
        elif self._sampler is None:
            tokens[active] = logits.argmax(1)[active]
        else:
            tokens[active] = [self._sampler.draw(int(row), logits[row]) for row in active]
        self._ids[active, self._ends[active]] = tokens[active]
        self._ends[active] += 1
        self._steps += 1
        if self._options.eos or self._options.stop:
            self.is_finished[active] = [self._has_ended(row) for row in active]
        return tokens

    def _has_ended(self, row: np.intp) -> bool:
        """True if the last token of a text, which is a new one, ends it. A stop sequence may begin in the prompt."""
        text = self._ids[row, : self._ends[row]]
        if int(text[-1]) in self._options.eos:
            return True
        return any(np.array_equal(text[-len(sequence) :], sequence) for sequence in self._options.stop)

    @property
    def ids(self) -> np.ndarray:
        """int64 [batch, length + steps]: each prompt, its new tokens, then `PADDING`."""
        return self._ids[:, : self._width + self._steps].copy()

    @property
    def logits(self) -> np.ndarray:
        """Float [batch, steps, vocab]: what each new token was chosen from, 0 where a text had ended before."""
        return np.stack(self._logits, 1)
