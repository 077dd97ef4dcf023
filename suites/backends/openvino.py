"""OpenVINO: CPU plugin with the latency hint (one stream), computing in float32 like everybody.

Pinning of its own is off: the harness has put the process on its processors already, and on a machine where that was
tried (one processor) it made no difference (47 and 48 us a call of a small network).
"""

from __future__ import annotations

import shutil
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Prepared

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn


class OpenVino(Backend):
    """Converts the program that `torch.export` gives; later processes of a case read the converted file."""

    takes_numpy = True

    def load(self) -> None:
        """Nothing beyond the import."""

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Export, convert, compile for the CPU."""
        import openvino
        import torch

        torch.set_num_threads(self.threads)
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        }
        start = time.perf_counter()
        kept = self.kept("openvino_ir")
        exported: float | None = None
        converted: Any
        if kept is not None and kept.is_dir():
            converted = kept / "model.xml"
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = torch.export.export(model, inputs)
                exported = time.perf_counter()
                converted = openvino.convert_model(program)
        compiled = openvino.Core().compile_model(converted, "CPU", settings)
        request = compiled.create_infer_request()
        ready = time.perf_counter()
        if kept is not None and exported is not None:
            _keep(converted, kept)
        count = len(compiled.outputs)

        def call_numpy(*arguments: np.ndarray) -> list[np.ndarray]:
            results = request.infer(list(arguments), share_inputs=True)
            return [results[index] for index in range(count)]

        def call(*arguments: Tensor) -> list[Tensor]:
            # share_outputs stays off: a caller may keep a result while the next call runs
            results = request.infer([tensor.numpy() for tensor in arguments], share_inputs=True)
            return [torch.from_numpy(results[index]) for index in range(count)]

        chosen = call_numpy if self.io == "numpy" else call
        if exported is None:
            return Prepared(chosen, None, ready - start)
        return Prepared(chosen, exported - start, ready - exported)


def _keep(converted: Any, folder: Path) -> None:
    """Write the converted model for later processes: the folder appears only when it is complete."""
    import openvino

    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    openvino.save_model(converted, partial / "model.xml", compress_to_fp16=False)
    partial.rename(folder)
