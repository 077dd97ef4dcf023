"""torch.compile with the inductor backend: weights frozen (constant-folded and prepacked), static shapes.

Compilation is lazy, so it happens inside of the first call; that call is what `compile_s` reads. Text is generated
over transformers' static cache, as its documentation says; the phase that is timed is compiled, the other one is eager.

On a CUDA device, mode ``max-autotune`` replays CUDA graphs, and the next replay overwrites the results of the last one.
They are copied, as part of the call, so that they last as those of every other backend do.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites import collector
from suites.backends.base import BackendSwitch, Generator, Prepared, Scheme, flatten
from suites.backends.eager import Eager
from suites.harness.declare.device import CUDA
from suites.harness.declare.precision import PRECISIONS
from suites.torch_internals import CompilationLog, generated_files, inductor_mode, inductor_settings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation

_MODES = ("default", "max-autotune", "max-autotune-no-cudagraphs")
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "freezing": ("freezing", {"off": False}),
    "epilogue_fusion": ("epilogue_fusion", {"off": False}),
    "pattern_matcher": ("pattern_matcher", {"off": False}),
    "fusion": ("max_fusion_size", {"off": 1}),
    "horizontal_fusion": ("cpp.max_horizontal_fusion_size", {"off": 1}),
    "layout_optimization": ("layout_optimization", {"off": False}),
    "inplace_buffers": ("inplace_buffers", {"off": False}),
    "comprehensive_padding": ("comprehensive_padding", {"off": False}),
    "weight_prepack": ("cpp.weight_prepack", {"off": False}),
    "tiling_heuristics": ("cpp.enable_tiling_heuristics", {"off": False}),
    "loop_tail_vec": ("cpp.enable_loop_tail_vec", {"off": False}),
    "simdlen": ("cpp.simdlen", {"1": 1, "256": 256, "512": 512}),
    "concat_linear": ("cpp.enable_concat_linear", {"on": True}),
}
"""Option -> inductor's setting, and what the values that are not usual stand for there."""
_KERNELS = ("= async_compile.cpp", "= async_compile.triton(")
"""In a generated module, one of these begins the source of each kernel. Library calls, such as products, are no
kernels.
"""

_SCRIPT = """\
import torch._inductor.config
torch._inductor.config.freezing = True
results = torch.compile(model, dynamic=False)(*inputs)
"""


class TorchCompile(Eager):
    """Option ``mode``: one of torch's modes; ``default`` is inductor's own default. The others: `SETTINGS`."""

    values: ClassVar[Mapping[str, Sequence[str]]] = {
        "mode": _MODES,
        **{name: tuple(known) for name, (_, known) in SETTINGS.items()},
    }
    scripts: ClassVar[Mapping[str, str]] = dict.fromkeys(("fp32", "bf16", "fp16"), _SCRIPT)
    schemes: ClassVar[Mapping[str, Scheme]] = {
        "int8_dynamic": Scheme(
            "activations have one fixed scale a tensor (PT2E, X86InductorQuantizer)",
            "own activations",
            needs=("torchao",),
            is_calibrated=True,
        )
    }

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """Each setting at each value that is not usual, and the modes; the one for CUDA graphs only by name."""
        settings = [
            BackendSwitch("setting", f"{name}={value}", {name: value})
            for name, (_, known) in SETTINGS.items()
            for value in known
        ]
        modes = [BackendSwitch("mode", f"mode={mode}", {"mode": mode}, usual=mode == _MODES[1]) for mode in _MODES[1:]]
        return [*settings, *modes]

    def provision(self) -> None:
        """Compile a toy: inductor probes the C++ compiler once a cache folder (7 s when measured)."""
        import torch

        with torch.inference_mode():
            torch.compile(torch.nn.GELU())(torch.zeros(64))

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        import torch

        from suites.backends._buffers import Buffers

        ready = Buffers(model, self.state).ready
        start = time.perf_counter()
        quantised = self._quantised(model)
        exported = time.perf_counter() - start if PRECISIONS[self.precision].kind == "quantised" else None
        compiled = self._compiled(quantised)

        def call(*arguments: Tensor) -> Any:
            with torch.inference_mode():
                return self._lasting(compiled(*arguments))

        seconds, facts = self._first(lambda: call(*inputs))
        return Prepared(call, exported, seconds, facts(), ready, facts, self.precision, self.device)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        from suites.backends import _static_cache

        wraps = {phase: self._compiled if phase == model.phase else None for phase in ("prefill", "decode")}
        prefill, decode = (self._with_lasting(step) for step in _static_cache.make_steps(model, **wraps))
        if model.phase == "prefill":
            seconds, facts = self._first(lambda: prefill(inputs[0]))
        else:
            prefill(inputs[0])
            seconds, facts = self._first(lambda: decode(inputs[1][:, :1]))
        return Generator(prefill, decode, None, seconds, facts(), facts, self.precision, self.device)

    def _quantised(self, model: nn.Module) -> nn.Module:
        """`model` as the precision of the case stores it."""
        if self.precision != "int8_dynamic":
            return model
        from suites.backends import _pt2e

        return _pt2e.quantise(model, self.calibration())

    def _lasting(self, results: Any) -> Any:
        """`results`; copies where a later call would overwrite them."""
        if self.device != CUDA or self.options.get("mode") != "max-autotune":
            return results
        import torch

        return results.clone() if isinstance(results, torch.Tensor) else [one.clone() for one in flatten(results)]

    def _with_lasting(self, step: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda ids: self._lasting(step(ids))

    def _compiled(self, model: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        mode = self.options.get("mode", "default")
        with collector.paused():  # the first one imports inductor
            torch.compiler.reset()  # a model that was compiled with other options would stay so
            options = inductor_mode(mode) if mode != "default" else {}
            compiled: Callable[..., Any] = torch.compile(model, dynamic=False, options=options)
        return compiled

    def _first(self, call: Callable[[], Any]) -> tuple[float, Callable[[], dict[str, Any]]]:
        """Seconds of a first call, which compiles, and what gives the facts of everything compiled since then."""
        # As an option of torch.compile, freezing comes too late for weights to become constants: with torch 2.13 the
        # code is the same with it and without. A setting of the process, as TORCHINDUCTOR_FREEZING=1, is in time.
        # Shapes are static, so only the first call compiles, and later ones need no settings.
        chosen = {name: SETTINGS[name] for name in self.options.keys() & SETTINGS.keys()}
        settings = {setting: values[self.options[name]] for name, (setting, values) in chosen.items()}
        with inductor_settings({"freezing": True, **settings}):
            log, files = CompilationLog(), len(generated_files())
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
        return seconds, lambda: _facts(log, generated_files()[files:])


def _facts(log: CompilationLog, modules: Sequence[Path]) -> dict[str, Any]:
    """Graph breaks, a digest of the generated code, and in `details` what was compiled and why."""
    breaks, recompiles = log.breaks(), log.recompiles()
    details = {
        "graphs": log.graphs(),
        "graph_breaks": breaks,
        "recompiles": len(recompiles),
        "recompile_reasons": recompiles,
        "phases": log.phases(),
        "kernels": sum(path.read_text().count(kernel) for path in modules for kernel in _KERNELS),
    }
    return {"graph_breaks": len(breaks), "run_digest": _digest(modules), "details": details}


def _digest(modules: Sequence[Path]) -> str:
    """Of the code that inductor made: C++ kernels and what calls them. Left out are comments that count compilations,
    and the addresses of weights.
    """
    lines = [line for path in modules for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    lines = [re.sub(r"(# device\(.*) [0-9a-f]+$", r"\1", line) for line in lines]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
