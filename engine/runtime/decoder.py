"""Text generation: two entry points, prefill and decode, over one packed copy of the weights and a cache.

`engine.compiler.compile_decoder` describes the module that a decoder is compiled from. `engine.runtime.generation`
chooses the tokens.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from engine import targets
from engine.config import Config
from engine.errors import ConfigError, ExecutionError, ShapeError
from engine.graph import Graph, own_borrowed
from engine.program import save_entries
from engine.runtime.generation import Options, Texts, check_options, to_int64
from engine.runtime.program import Program
from engine.runtime.report import Reports
from engine.runtime.requests import refuse_to_copy
from engine.runtime.sampling import check_sampling
from engine.runtime.state import State
from engine.targets.base import Device
from engine.targets.lowering import lower
from engine.targets.tuned import Tuning

ENTRIES = ("prefill", "decode")
FACTS = ("max_length", "batch")


class Cache(State):
    """The state of one batch of texts: the buffers of the module, and the number of tokens of each text in them.

    `Decoder.new_state` creates it.
    """

    def __init__(self, graph: Graph, device: Device, batch: int) -> None:
        self.graph = graph
        self._lengths = np.zeros(batch, np.int64)
        self._is_streaming = False
        super().__init__(graph, device)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each text in the cache, int64 [batch]: a read-only copy."""
        lengths = self._lengths.copy()
        lengths.flags.writeable = False
        return lengths

    def set_lengths(self, lengths: np.ndarray) -> None:
        """Record the number of tokens of each text; the decoder calls it after each run."""
        self._lengths[:] = lengths

    def check_free(self, call: str) -> None:
        """ExecutionError if a stream is in progress with this state. `call` names the call that wants to use it."""
        if self._is_streaming:
            raise ExecutionError(
                f"{call}: a stream is in progress with this state, and this call would mix its texts with others; read "
                "the stream to its end, call its close(), or use another state: state=decoder.new_state()"
            )

    def begin_stream(self) -> None:
        """Reserve the state for a stream. Raises as `check_free`."""
        with self.lock:
            self.check_free("stream")
            self._is_streaming = True

    def end_stream(self) -> None:
        """Release the state; any thread may call it."""
        self._is_streaming = False

    def reset(self) -> None:
        """Remove all texts. Raises ExecutionError while a stream is in progress with this state."""
        with self.lock:
            self.check_free("reset")
            super().reset()
            self._lengths[:] = 0


class Stream(Iterator[Any]):
    """The new tokens of a batch of texts, step by step. `Decoder.stream` creates it.

    Several threads may use it: one waits while the token of another is computed. A Python generator would raise
    ValueError.
    """

    def __init__(self, tokens: Generator[Any]) -> None:
        self._tokens = tokens
        self._lock = threading.RLock()  # with a Lock, a signal handler that calls close() might wait for its own thread

    def __next__(self) -> Any:
        with self._lock:
            return next(self._tokens)

    def close(self) -> None:
        """End the stream and release its state. A token that another thread computes is completed first."""
        with self._lock:
            self._tokens.close()


class Decoder:
    """Generates text. `compile_decoder` and `load_decoder` return it.

    Several threads may use one decoder. Each call uses a state: the one that is given, or else the decoder's own. Calls
    with different states run at the same time; calls with the same state run one after the other. With `prefill` and
    `decode`, give each thread a state of its own, because another thread may begin a text between two calls; `generate`
    is one call and needs none. While a stream is in progress, other calls with its state raise an ExecutionError.

    Ids are torch tensors or NumPy arrays, int64 [batch, length]. Logits and new tokens are of the same kind.

    Attributes:
        max_length: number of tokens of each text that a cache holds.
        batch: number of texts in a call.
        config: the switches.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        facts: Mapping[str, int],
        config: Config,
        *,
        export_seconds: Mapping[str, float | None] = MappingProxyType({}),
    ) -> None:
        self.max_length, self.batch = int(facts["max_length"]), int(facts["batch"])
        self.config = config
        self._graphs = {name: graphs[name] for name in ENTRIES}
        self._target = targets.get(config.target)
        lowered = lower(graphs, config, widen=self._target.instruments.lacks("bfloat16", config))
        prepared = self._target.new_prepared()
        self._prefill, self._decode = (
            Program(
                graphs[name],
                config,
                lowered=lowered[name],
                prepared=prepared,
                export_seconds=export_seconds.get(name),
            )
            for name in ENTRIES
        )
        own_borrowed([*graphs.values(), *lowered.values()])
        self._state = self.new_state()

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self, "use save and engine.load_decoder")

    def __repr__(self) -> str:
        name = self._graphs["decode"].name
        return f"<Decoder {name}(max_length={self.max_length}, batch={self.batch})>"

    # --- step by step ------------------------------------------------------------------------------------------------

    def new_state(self) -> Cache:
        """Create an empty cache, for the argument ``state``."""
        return Cache(self._graphs["prefill"], self._target.device, self.batch)

    def prefill(self, ids: Any, lengths: Any = None, state: Cache | None = None) -> Any:
        """Begin new texts: write these tokens to the cache, in place of earlier texts.

        Args:
            ids: int64 [batch, length], length from 1 to `max_length`. Ids behind the end of a shorter text are ignored.
            lengths: number of tokens of each text, [batch]; None: `length` for all of them.
            state: the cache; None: the decoder's own.

        Returns:
            The logits after the last token of each text, [batch, vocab].

        Raises:
            ShapeError: wrong shape or type of ids, a text longer than the cache, or wrong lengths.
            ExecutionError: an id outside of the vocabulary, or a stream is in progress with this state.
        """
        state, length = self._cache(state), self._length(ids, self.max_length)
        counts = self._lengths(lengths, length)
        with state.lock:
            state.check_free("prefill")
            return self._run_prefill(ids, counts, state)

    def decode(self, ids: Any, state: Cache | None = None) -> Any:
        """Continue each text by one token, which is written to the cache.

        Args:
            ids: int64 [batch, 1].
            state: the cache; None: the decoder's own.

        Returns:
            The logits after this token, [batch, vocab].

        Raises:
            ShapeError: wrong shape or type of ids, or the cache is empty or full.
            ExecutionError: an id outside of the vocabulary, or a stream is in progress with this state.
        """
        state = self._cache(state)
        self._length(ids, 1)
        with state.lock:
            state.check_free("decode")
            lengths = state.lengths
            if not lengths.all():
                raise ShapeError("decode: the cache is empty; prefill it first")
            if lengths.max() >= self.max_length:
                raise ShapeError(f"decode: the cache holds {self.max_length} tokens and is full")
            return self._run_decode(ids, np.ones(self.batch, bool), state)

    def _run_prefill(self, ids: Any, lengths: np.ndarray, state: Cache) -> Any:
        """The logits after prompts whose shapes have been checked. The caller holds the lock of the state."""
        entry = self._decode if ids.shape[1] == 1 else self._prefill
        ids = _without_padding(ids, lengths)
        logits = entry(ids, *_like(ids, np.zeros(self.batch, np.int64), lengths), state=state)
        state.set_lengths(lengths)
        return logits

    def _run_decode(self, ids: Any, active: np.ndarray, state: Cache) -> Any:
        """The logits after one more token of each text. The caller holds the lock of the state.

        Where `active`, bool [batch], is false, the length of the text stays. Its token is written to the slot past
        the current length, where the next token overwrites it, and its logits have no meaning.
        """
        position = state.lengths.copy()  # writable, because torch warns of read-only arrays
        logits = self._decode(ids, *_like(ids, position, position + 1), state=state)
        state.set_lengths(position + active)
        return logits

    # --- whole texts -------------------------------------------------------------------------------------------------

    def generate(
        self,
        ids: Any,
        max_new_tokens: int = 64,
        lengths: Any = None,
        *,
        eos_token_id: Any = None,
        stop: Any = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        return_logits: bool = False,
        state: Cache | None = None,
    ) -> Any:
        """Continue each text until it ends or has `max_new_tokens` new tokens.

        By default each new token is the most likely one; of equal logits it is the smallest id. With a temperature it
        is drawn at random, from float64 probabilities after three steps in this order:

        1. `temperature`: the logits are divided by it.
        2. `top_k`: the k most likely tokens are kept.
        3. `top_p`: of these, the fewest most likely tokens are kept whose probabilities sum to `top_p` or more.

        Args:
            ids: int64 [batch, length], the prompts. Ids behind the end of a shorter prompt are ignored.
            max_new_tokens: largest number of new tokens of each text. With the prompt, and without the last new
                token, they must fit into the cache.
            lengths: number of tokens of each prompt, [batch]; None: `length` for all of them.
            eos_token_id: an id or several ids that end a text. The result includes this token.
            stop: sequences of ids, such as ``[[13, 10], [50256]]``. A text ends when its last tokens are one of
                them; the result includes them. A sequence may begin in the prompt; its last token must be a new one.
            temperature: above 0 to draw tokens at random. None and 0 choose the most likely one.
            top_k: from 1 on; None, or more than the vocabulary has, keeps all tokens.
            top_p: above 0 and up to 1; None keeps all tokens.
            seed: makes the random numbers reproducible. Global generators neither influence them nor are changed. Each
                text has its own numbers, which do not depend on the other texts of the batch. None: they differ from
                call to call.
            return_logits: also return the logits that each new token was chosen from.
            state: the cache; None: the decoder's own. Afterwards it holds each text without its last new token.

        Returns:
            int64 [batch, length + new], of the kind of `ids`: each prompt, directly followed by its new tokens, and
            zeros after its end. `new` is `max_new_tokens`, or fewer if all texts have ended earlier.
            With `return_logits` a tuple of these ids and the logits [batch, new, vocab], as the model computed them,
            before temperature and filters; bfloat16 is returned as float32. They are 0 where a text had already ended.

        Raises:
            ShapeError: as `prefill`, or the texts would not fit into the cache. Nothing has run then.
            ConfigError: another argument has a value that is not allowed.
            ExecutionError: as `prefill`, or NaN, +inf or only -inf in the logits that a token is drawn from.
        """
        if not isinstance(return_logits, bool):
            raise ConfigError(f"return_logits: expected True or False, got {return_logits!r}")
        options = self._options(max_new_tokens, eos_token_id, stop, temperature, top_k, top_p, seed, return_logits)
        counts, state = self._check_prompts(ids, lengths, options), self._cache(state)
        with state.lock:
            state.check_free("generate")
            for texts, _tokens in self._steps(ids, counts, options, state):
                result = texts
        if return_logits:
            return _like(ids, result.ids, result.logits)
        return _like(ids, result.ids)[0]

    def stream(
        self,
        ids: Any,
        max_new_tokens: int = 64,
        lengths: Any = None,
        *,
        eos_token_id: Any = None,
        stop: Any = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        state: Cache | None = None,
    ) -> Stream:
        """Yield the tokens that `generate` returns, step by step.

        The model runs when the next token is asked for. From the first token until the loop over it ends, the stream
        reserves its state: other calls with this state raise an ExecutionError. Ending the loop early releases the
        state, and so does `close()` if you keep the stream in a variable. Several threads may ask for tokens: each
        token goes to one of them.

        Args:
            ids: int64 [batch, length], the prompts, which are copied.
            max_new_tokens: largest number of tokens; this and the following as for `generate`.
            lengths: number of tokens of each prompt, [batch].
            eos_token_id: an id or several ids that end a text.
            stop: sequences of ids that end a text.
            temperature: above 0 to draw tokens at random.
            top_k: number of most likely tokens to draw from.
            top_p: probability of the most likely tokens to draw from.
            seed: makes the random numbers reproducible.
            state: the cache; None: the decoder's own.

        Yields:
            int64 [batch], of the kind of `ids`: the new token of each text, 0 for texts that have ended.

        Raises:
            ShapeError, ConfigError: as `generate`, when `stream` is called.
            ExecutionError: as `generate`, or another stream is in progress with this state, when a token is asked for.
        """
        options = self._options(max_new_tokens, eos_token_id, stop, temperature, top_k, top_p, seed)
        counts = self._check_prompts(ids, lengths, options)
        prompts = ids.copy() if isinstance(ids, np.ndarray) else ids.clone()  # the caller may change ids meanwhile
        return Stream(self._stream(prompts, counts, options, self._cache(state)))

    def _stream(self, ids: Any, lengths: np.ndarray, options: Options, state: Cache) -> Generator[Any]:
        """The tokens of a stream whose arguments have been checked. Holds the lock only while the model runs."""
        state.begin_stream()
        try:
            steps = self._steps(ids, lengths, options, state)
            while True:
                with state.lock:
                    step = next(steps, None)
                if step is None:
                    return
                _texts, tokens = step
                yield _like(ids, tokens.copy())[0]  # the caller may change it before the next step
        finally:
            state.end_stream()

    def _steps(
        self, ids: Any, lengths: np.ndarray, options: Options, state: Cache
    ) -> Iterator[tuple[Texts, np.ndarray]]:
        """Yield the texts and their new tokens, int64 [batch], after each step. At each, the caller holds the lock."""
        ids = self._target.device.bring(ids)
        logits = self._run_prefill(ids, lengths, state)
        texts = Texts(_to_array(ids), lengths, options)
        while True:
            chosen = None if texts.needs_logits else self._target.device.choose_most_likely(logits)
            tokens = texts.append(_to_array(logits) if chosen is None else None, chosen)
            yield texts, tokens
            if texts.is_complete:
                return
            logits = self._run_decode(_like(ids, tokens[:, None])[0], ~texts.is_finished, state)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _options(
        self,
        max_new_tokens: Any,
        eos_token_id: Any,
        stop: Any,
        temperature: Any,
        top_k: Any,
        top_p: Any,
        seed: Any,
        return_logits: bool = False,
    ) -> Options:
        return check_options(
            int(self._graphs["decode"].call_outputs[0].shape[1]),
            max_new_tokens,
            eos_token_id=eos_token_id,
            stop=stop,
            sampling=check_sampling(temperature, top_k, top_p, seed),
            return_logits=return_logits,
        )

    def _check_prompts(self, ids: Any, lengths: Any, options: Options) -> np.ndarray:
        """The number of tokens of each prompt. ShapeError unless the texts fit into the cache."""
        length = self._length(ids, self.max_length)
        most = self.max_length - length + 1  # the last new token is not written to the cache
        if options.max_new_tokens > most:
            raise ShapeError(
                f"a prompt of {length} tokens and max_new_tokens={options.max_new_tokens} do not fit: the cache holds "
                f"{self.max_length} tokens of each text, so max_new_tokens may be at most {most}"
            )
        return self._lengths(lengths, length)

    def _cache(self, state: object) -> Cache:
        """`state`, or the decoder's own if it is None. ShapeError if this decoder did not create it."""
        if state is None:
            return self._state
        if not isinstance(state, Cache) or state.graph is not self._graphs["prefill"]:
            of = "another decoder" if isinstance(state, Cache) else "a program"
            got = f"a state of {of}" if isinstance(state, State) else type(state).__name__
            raise ShapeError(
                f"state: expected one of decoder.new_state(), for {self._describe_batch('text')}, got {got}"
            )
        return state

    def _length(self, ids: Any, most: int) -> int:
        """The number of columns of `ids`. ShapeError unless they are int64 [batch, 1 to `most`]."""
        shape, dtype = getattr(ids, "shape", None), str(getattr(ids, "dtype", "")).removeprefix("torch.")
        if isinstance(shape, tuple) and len(shape) == 2 and dtype == "int64":
            batch, length = shape
            if batch == self.batch and 1 <= length <= most:
                return int(length)
        kind = f"{type(ids).__name__}, which is neither a NumPy array nor a torch tensor"
        got = f"{dtype} {list(shape)}" if isinstance(shape, tuple) and dtype else kind
        columns = "1" if most == 1 else f"1 to {most}"
        raise ShapeError(f"ids: expected int64 [{self.batch}, {columns}], got {got}")

    def _lengths(self, lengths: Any, length: int) -> np.ndarray:
        """`lengths` as int64 [batch]; None means `length`. ShapeError for anything but numbers from 1 to `length`."""
        counts = np.full(self.batch, length, np.int64) if lengths is None else to_int64(lengths)
        if counts is None or counts.shape != (self.batch,) or counts.min() < 1 or counts.max() > length:
            expected = self._describe_batch("whole number")
            raise ShapeError(f"lengths: expected {expected} from 1 to {length}, got {lengths!r}")
        return counts

    def _describe_batch(self, noun: str) -> str:
        """``"1 text"`` or ``"3 texts"``."""
        return f"{self.batch} {noun}{'' if self.batch == 1 else 's'}"

    def check_room(self) -> None:
        """Write a token to the last slot of each text, then empty the cache.

        Raises ConfigError if the module has fewer slots or positions than `max_length`.
        """
        last = np.full(self.batch, self.max_length - 1, np.int64)
        with self._state.lock:
            try:
                self._decode(np.zeros((self.batch, 1), np.int64), last, last + 1, state=self._state)
            except ExecutionError as error:
                raise ConfigError(
                    f"max_length: the module fails at token {self.max_length} of a text: {error}. If a buffer or a "
                    "table of positions is shorter than max_length, give a smaller max_length"
                ) from None
            finally:
                self._state.reset()

    # --- reports and files -------------------------------------------------------------------------------------------

    def report(self) -> Reports:
        """The report of each entry point; printed, one after the other."""
        return Reports(zip(ENTRIES, (self._prefill.report(), self._decode.report()), strict=True))

    def entry(self, name: str) -> Program:
        """The program of an entry point, ``prefill`` or ``decode``, to profile or trace; KeyError for other names.

        Its calls take what the module's forward takes, and ``state=decoder.new_state()``.
        """
        return {"prefill": self._prefill, "decode": self._decode}[name]

    def tune(self, ids: Any, *, rounds: int = 9, folder: str | Path | None = None) -> tuple[Tuning, Tuning]:
        """As `Program.tune`, for both entry points: prefill with this prompt, and decode behind it.

        Args:
            ids: int64 [batch, length], the prompt; two tokens of each text or more.
            rounds: as for `Program.tune`.
            folder: as for `Program.tune`.

        Raises:
            ConfigError, ExecutionError: as `Program.tune`.
            ShapeError: wrong shape or type of ids, one token only, or no room for another token behind them.
        """
        length = self._length(ids, self.max_length)
        if not 2 <= length < self.max_length:
            raise ShapeError(f"tune: expected from 2 to {self.max_length - 1} tokens, got {length}")
        state, lengths = self.new_state(), np.full(self.batch, length, np.int64)
        first = self._prefill.tune(
            ids, *_like(ids, np.zeros(self.batch, np.int64), lengths), state=state, rounds=rounds, folder=folder
        )
        self.prefill(ids, state=state)
        second = self._decode.tune(
            ids[:, :1], *_like(ids, lengths, lengths + 1), state=state, rounds=rounds, folder=folder
        )
        return first, second

    def save(self, path: str | Path) -> None:
        """Write the decoder to one file, which `load_decoder` reads. Raises ProgramError if it cannot be written."""
        save_entries(path, self._graphs, {"max_length": self.max_length, "batch": self.batch})


def _to_array(logits: Any) -> np.ndarray:
    """Logits or ids as an array of one of NumPy's own types: bfloat16 becomes float32, which is exact."""
    if not isinstance(logits, np.ndarray):
        logits = logits.cpu()  # itself if it is there
    if str(logits.dtype).endswith("bfloat16"):
        logits = logits.astype(np.float32) if isinstance(logits, np.ndarray) else logits.float()
    return np.asarray(logits)


def _without_padding(ids: Any, lengths: np.ndarray) -> Any:
    """`ids` with 0 in place of padding, which need not be an id. Every vocabulary has the id 0."""
    is_behind = np.arange(ids.shape[1]) >= lengths[:, None]
    if not is_behind.any():
        return ids
    if isinstance(ids, np.ndarray):
        return np.where(is_behind, 0, ids)
    return ids.masked_fill(_like(ids, is_behind)[0], 0)


def _like(ids: Any, *arrays: np.ndarray) -> tuple[Any, ...]:
    """The arrays as torch tensors on the device of `ids` if that is a tensor, otherwise unchanged."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(ids, torch.Tensor):
        return arrays
    return tuple(torch.from_numpy(array).to(ids.device) for array in arrays)
