"""ONNX Runtime on the model that `torch.onnx.export(dynamo=True)` writes, with every graph optimisation.

Intra-op threads as asked, one inter-op thread, sequential execution: what its documentation recommends for latency.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from suites.backends.base import Backend, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn


class OnnxRuntime(Backend):
    """The CPU execution provider."""

    def load(self) -> None:
        """Silence the runtime below errors. The exporter (torch.onnx, onnxscript) is imported when it exports."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Export to a temporary folder, make the session."""
        import onnxruntime
        import torch

        torch.set_num_threads(self.threads)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            start = time.perf_counter()
            _export(model, inputs, path)
            exported = time.perf_counter()
            artifact = sum(file.stat().st_size for file in Path(folder).iterdir())
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            compiled = time.perf_counter()
        names = [entry.name for entry in session.get_inputs()]

        def call(*arguments: Tensor) -> list[Tensor]:
            feed = {name: tensor.numpy() for name, tensor in zip(names, arguments, strict=True)}
            return [torch.from_numpy(array) for array in session.run(None, feed)]

        return Prepared(call, exported - start, compiled - exported, {"artifact_bytes": artifact})


def _export(model: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> None:
    import torch

    noise = logging.getLogger("torch.onnx")
    level = noise.level
    noise.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(model, inputs, dynamo=True, external_data=True)
            if program is None:
                raise RuntimeError("torch.onnx.export gave no program")
            program.save(path, external_data=True)
    finally:
        noise.setLevel(level)
