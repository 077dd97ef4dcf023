"""llama.cpp, through the functions that llama-cpp-python binds, on a GGUF file of the very weights of the case.

Both precisions of 8 bits are a file of Q8_0: blocks of 32 elements of a row share a float16 scale, and products
quantise their activations in the same way. Between operators values are float32 in every precision. Keys and values
have the type of the case, and are float32 where weights are quantised: llama.cpp's own default, float16, is less than
an fp32 case asks for.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites import paths
from suites.backends.base import Backend, Generator, NotApplicable, Prepared, Scheme
from suites.harness.errors import Unavailable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation
    from suites.models.nets.gguf_write import Encoding

ENCODINGS: dict[str, Encoding] = {"fp32": "f32", "bf16": "bf16", "int8_weight": "q8_0", "int8_dynamic": "q8_0"}
"""Precision -> how matrices are stored in the file."""


class LlamaCpp(Backend):
    """Language models whose architecture `suites.models.nets.gguf_write` writes; other models are `not applicable`."""

    schemes: ClassVar[Mapping[str, Scheme]] = dict.fromkeys(
        ("int8_weight", "int8_dynamic"),
        Scheme("Q8_0 has a float16 scale for each 32 elements of a row, of activations as of weights"),
    )

    def load(self) -> None:
        import llama_cpp

        _silence()
        llama_cpp.llama_backend_init()

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        from suites.models.nets.causal import CausalLM

        if not isinstance(model, CausalLM):
            raise NotApplicable(f"llama.cpp runs language models; this is a {type(model).__name__}")
        (ids,) = inputs
        session = _Session(self, model.network, *ids.shape)
        last_only = model.last_only

        def call(ids: Tensor) -> Tensor:
            session.clear()
            logits = session.decode(ids, last_only=last_only)
            return logits[:, -1] if last_only else logits

        return Prepared(call, session.export_s, session.compile_s, session.facts, precision=self.precision)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002  # model has the sizes
        session = _Session(self, model.network, model.batch, model.max_length)

        def decode(ids: Tensor) -> Tensor:
            return session.decode(ids, last_only=True)[:, -1]

        def prefill(ids: Tensor) -> Tensor:
            session.clear()
            return decode(ids)

        return Generator(prefill, decode, session.export_s, session.compile_s, session.facts, precision=self.precision)


def keep_file(network: Any, encoding: Encoding) -> Path:
    """The path of the GGUF file of `network` in the user's cache; written if the cache has none, or CannotWrite."""
    from suites.models.nets import gguf_write

    gguf_write.check_config(network.config)
    name = f"{network.config.model_type}-{gguf_write.digest(network)}-{encoding}.gguf"
    path = paths.user_cache() / "gguf" / name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{name}.{time.monotonic_ns()}.partial")
        try:
            gguf_write.write(network, partial, encoding)
            partial.replace(path)  # appears only when it is complete
        finally:
            partial.unlink(missing_ok=True)
    return path


class _Session:
    """A model and a context, which hold `batch` texts of `length` tokens at most.

    `export_s` are seconds spent on the file, `compile_s` those of loading it; `facts` are as of `Prepared`.
    """

    def __init__(self, backend: LlamaCpp, network: Any, batch: int, length: int) -> None:
        import llama_cpp

        from suites.models.nets.gguf_write import CannotWrite

        self._lib: Any = llama_cpp
        start = time.perf_counter()
        try:
            path = keep_file(network, ENCODINGS[backend.precision])
        except CannotWrite as reason:
            raise NotApplicable(f"llama.cpp: {reason}") from reason
        written = time.perf_counter()
        self._vocabulary: int = network.config.vocab_size
        self._rounds = backend.precision == "bf16"
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self._context = llama_cpp.llama_init_from_model(model, _set_context(llama_cpp, backend, batch, length))
        if not self._context:
            raise Unavailable(f"llama.cpp makes no context for {batch} texts of {length} tokens in {backend.precision}")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(batch * length, 0, 1)
        self._length = 0
        self.export_s, self.compile_s = written - start, time.perf_counter() - written
        self.facts = {
            "weight_bytes": int(llama_cpp.llama_model_size(model)),
            "artifact_bytes": path.stat().st_size,
            "details": {"system": llama_cpp.llama_print_system_info().decode()},
        }

    def clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, False)
        self._length = 0

    def decode(self, ids: Tensor, *, last_only: bool) -> Tensor:
        """Append tokens [B, S] to the texts; logits [B, S, vocabulary], or [B, 1, vocabulary] of the last position."""
        import numpy as np
        import torch

        texts, batch = ids.tolist(), self._batch
        count = len(texts[0])
        for text, tokens in enumerate(texts):
            for number, token in enumerate(tokens):
                at = text * count + number
                batch.token[at], batch.pos[at] = token, self._length + number
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, text
                batch.logits[at] = not last_only or number == count - 1
        batch.n_tokens = len(texts) * count
        status = self._lib.llama_decode(self._context, batch)
        if status:
            raise RuntimeError(f"llama_decode returned {status} for {count} tokens after {self._length}")
        self._length += count
        rows = len(texts) * (1 if last_only else count)
        address = self._lib.llama_get_logits(self._context)
        # The next call overwrites this memory.
        logits = np.ctypeslib.as_array(address, shape=(rows, self._vocabulary)).copy()
        found = torch.from_numpy(logits).reshape(len(texts), -1, self._vocabulary)
        return found.bfloat16() if self._rounds else found


def _set_context(lib: Any, backend: LlamaCpp, batch: int, length: int) -> Any:
    """Parameters of a context whose sequences have room for `length` tokens each, decoded in one piece."""
    parameters = lib.llama_context_default_params()
    parameters.n_ctx = batch * length
    parameters.n_seq_max = batch
    parameters.n_batch = parameters.n_ubatch = batch * length
    parameters.n_threads = parameters.n_threads_batch = backend.threads
    parameters.type_k = parameters.type_v = _BF16 if backend.precision == "bf16" else lib.GGML_TYPE_F32
    if backend.precision == "fp32":
        # Flash attention had relative errors of about 1e-4 on the tiny models, too large for float32.
        parameters.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.offload_kqv = False
    parameters.no_perf = True
    return parameters


_BF16 = 30
"""GGML_TYPE_BF16, which llama-cpp-python 0.3.36 does not name."""


@cache
def _silence() -> Any:
    """Keep the runtime from logging every tensor; the cache keeps its callback alive as long as the process."""
    import llama_cpp

    callback = llama_cpp.llama_log_callback(lambda _level, _text, _data: None)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    return callback
