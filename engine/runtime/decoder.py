"""Text generation: two entry points, prefill and decode, over one packed copy of the weights and a cache.

What a module must be is said at `compile_decoder`; how a model becomes one is the caller's business.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from engine import targets
from engine.config import Config
from engine.errors import ConfigError, ExecutionError, ShapeError
from engine.program import Artifact, sharing
from engine.runtime.program import Program
from engine.runtime.report import Report
from engine.runtime.state import State
from engine.targets.base import Device
from engine.targets.lowering import lower

ENTRIES = ("prefill", "decode")
FACTS = ("max_length", "batch")


class Cache(State):
    """The state of one batch of texts: the module's buffers, and how many tokens of each text they hold."""

    def __init__(self, artifact: Artifact, device: Device, batch: int) -> None:
        self.artifact = artifact
        self._lengths = np.zeros(batch, np.int64)
        super().__init__(artifact, device)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, int64 [batch]: as of now, to be read only."""
        found = self._lengths.copy()
        found.flags.writeable = False
        return found

    def holds(self, lengths: np.ndarray) -> None:
        """Said by the decoder: from now on `lengths` tokens of each text."""
        self._lengths[:] = lengths

    def reset(self) -> None:
        """Empty, as at first."""
        with self.lock:
            super().reset()
            self._lengths[:] = 0


class Decoder:
    """Made by `compile_decoder` and `load_decoder`.

    May be used from several threads. With a state of its own each, they run side by side. Calls with one state, which
    the decoder's own is, wait for each other: a call of `prefill`, `decode` or `generate` is a whole. So `generate`
    needs no state of its own to be right; going step by step does, since another thread may begin a text in between.

    Ids are torch tensors or NumPy arrays, int64 [batch, length]; logits come back in the same kind.
    """

    def __init__(
        self,
        artifacts: Mapping[str, Artifact],
        facts: Mapping[str, int],
        config: Config,
        *,
        borrowed: bool,
        export_seconds: Mapping[str, float | None] = MappingProxyType({}),
    ) -> None:
        self.max_length, self.batch = int(facts["max_length"]), int(facts["batch"])
        self.config = config
        self._artifacts = dict(artifacts)
        self._target = targets.get(config.target)
        lowered = lower(artifacts, config, borrowed=borrowed)
        prepared = self._target.prepare(lowered["prefill"], borrowed=borrowed)
        with prepared.gathering():
            self._prefill, self._decode = (
                Program(
                    artifacts[name],
                    config,
                    lowered=lowered[name],
                    prepared=prepared,
                    export_seconds=export_seconds.get(name),
                )
                for name in ENTRIES
            )
        self._state = self.new_state()

    # --- generating ------------------------------------------------------------------------------------------------

    def new_state(self) -> Cache:
        """An empty cache of one's own, for ``state=``."""
        return Cache(self._artifacts["prefill"], self._target.device, self.batch)

    def prefill(self, ids: Any, lengths: Any = None, state: Cache | None = None) -> Any:
        """Begin texts anew: put them into the cache. Returns the logits behind the last token of each, [batch, vocab].

        Args:
            ids: int64 [batch, length], 1 to `max_length` long; texts that are shorter are filled up at their end.
            lengths: how long each text is, [batch]; None: all of them are `length` long.
            state: None: the decoder's own.

        Raises:
            ShapeError: wrong shape or type, a text that is longer than the cache, or lengths that fit no text.
            ExecutionError: an id that the vocabulary does not have.
        """
        state, length = self._cache(state), self._length(ids)
        if length > self.max_length:
            raise ShapeError(f"prefill: the cache holds {self.max_length} tokens, got {length}")
        whole = np.full(self.batch, length, np.int64) if lengths is None else _whole_numbers(lengths)
        if whole is None or whole.shape != (self.batch,) or whole.min() < 1 or whole.max() > length:
            raise ShapeError(f"prefill: expected {self.batch} lengths from 1 to {length}, got {lengths!r}")
        entry = self._decode if length == 1 else self._prefill
        with state.lock:
            logits = entry(*_alike(ids, np.zeros(self.batch, np.int64), whole), state=state)
            state.holds(whole)
        return logits

    def decode(self, ids: Any, state: Cache | None = None) -> Any:
        """Go on by one token a text. Returns the logits behind it, [batch, vocab].

        Args:
            ids: int64 [batch, 1].
            state: None: the decoder's own.

        Raises:
            ShapeError: wrong shape or type, nothing was put into the cache before, or it is full.
            ExecutionError: an id that the vocabulary does not have.
        """
        state = self._cache(state)
        if self._length(ids) != 1:
            raise ShapeError(f"decode: expected ids [{self.batch}, 1], got {list(ids.shape)}")
        with state.lock:
            lengths = state.lengths
            if not lengths.all():
                raise ShapeError("decode: the cache is empty; prefill it first")
            if lengths.max() >= self.max_length:
                raise ShapeError(f"decode: the cache holds {self.max_length} tokens and is full")
            position = lengths.copy()  # torch warns of arrays that are to be read only
            logits = self._decode(*_alike(ids, position, lengths + 1), state=state)
            state.holds(lengths + 1)
        return logits

    def generate(self, ids: Any, max_new_tokens: int = 64, lengths: Any = None, *, state: Cache | None = None) -> Any:
        """The likeliest token, again and again. Returns int64 [batch, length + max_new_tokens]: each text, what follows
        it, and zeros behind where a text was shorter than the longest.

        Raises:
            ShapeError: as `prefill` and `decode`; more tokens than the cache holds are refused before anything runs.
            ConfigError: `max_new_tokens` is no whole number from 1 on.
        """
        length = self._length(ids)
        if type(max_new_tokens) is not int or max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens: expected a whole number from 1 on, got {max_new_tokens!r}")
        if length + max_new_tokens - 1 > self.max_length:
            raise ShapeError(
                f"generate: {length} tokens and {max_new_tokens} new ones; the cache holds {self.max_length}, "
                "and the last new one need not be in it"
            )
        state = self._cache(state)
        with state.lock:
            return self._generate(ids, max_new_tokens, lengths, state)

    def _generate(self, ids: Any, max_new_tokens: int, lengths: Any, state: Cache) -> Any:
        found = np.zeros((self.batch, ids.shape[1] + max_new_tokens), np.int64)
        logits, given = self.prefill(ids, lengths, state), np.asarray(ids)
        rows, ends = np.arange(self.batch), state.lengths
        for row, kept in enumerate(ends):
            found[row, :kept] = given[row, :kept]
        for number in range(max_new_tokens):
            chosen = np.asarray(logits).argmax(1)
            found[rows, ends + number] = chosen
            if number + 1 < max_new_tokens:
                logits = self.decode(_alike(ids, chosen[:, None])[1], state)
        return _alike(ids, found)[1]

    def _cache(self, state: object) -> Cache:
        """`state`, or the decoder's own. ShapeError where it is none that this decoder made."""
        if state is None:
            return self._state
        if not isinstance(state, Cache) or state.artifact is not self._artifacts["prefill"]:
            got = "one of another decoder" if isinstance(state, Cache) else repr(state)
            raise ShapeError(f"state: expected one of decoder.new_state(), for {self.batch} texts, got {got}")
        return state

    def _length(self, ids: Any) -> int:
        shape = getattr(ids, "shape", None)
        if not isinstance(shape, tuple) or len(shape) != 2 or shape[0] != self.batch or not shape[1]:
            kind = f"{type(ids).__name__}, which is neither a NumPy array nor a torch tensor"
            got = list(shape) if isinstance(shape, tuple) else kind
            raise ShapeError(f"ids: expected int64 [{self.batch}, 1 to {self.max_length}], got {got}")
        return int(shape[1])

    def check_room(self) -> None:
        """Put a token into the last place of each text, then empty the cache: known before the first text gets there.

        Raises:
            ConfigError: the module has no such place.
        """
        last = np.full(self.batch, self.max_length - 1, np.int64)
        with self._state.lock:
            try:
                self._decode(np.zeros((self.batch, 1), np.int64), last, last + 1, state=self._state)
            except ExecutionError as error:
                raise ConfigError(
                    f"max_length: the module has no place for token {self.max_length} of a text: {error}"
                ) from None
            finally:
                self._state.reset()

    # --- reading it ------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Report]:
        """The report of each entry point."""
        return {name: entry.report() for name, entry in zip(ENTRIES, (self._prefill, self._decode), strict=True)}

    def entry(self, name: str) -> Program:
        """The program of an entry point, ``prefill`` or ``decode``, to profile or trace; KeyError for others."""
        return {"prefill": self._prefill, "decode": self._decode}[name]

    def save(self, path: str | Path) -> None:
        """Write one file, which `load_decoder` reads. Raises ProgramError where it cannot be written."""
        sharing.save(path, self._artifacts, {"max_length": self.max_length, "batch": self.batch})


def _whole_numbers(values: Any) -> np.ndarray | None:
    """`values` as int64, a copy; None where they are no whole numbers, which are not rounded to some."""
    try:
        found = np.array(values)
    except ValueError:  # rows of different lengths
        return None
    return found.astype(np.int64) if found.dtype.kind in "iu" else None


def _alike(ids: Any, *arrays: np.ndarray) -> tuple[Any, ...]:
    """`ids`, and the arrays as what `ids` is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(ids, torch.Tensor):
        return ids, *map(torch.from_numpy, arrays)
    return ids, *arrays
