"""ONNX Runtime on the model that `torch.onnx.export(dynamo=True)` writes, with every graph optimisation.

Intra-op threads as asked, one inter-op thread, sequential execution: what its documentation recommends for latency.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from suites.backends.base import Backend, Prepared

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn


class OnnxRuntime(Backend):
    """The CPU execution provider."""

    takes_numpy = True

    def load(self) -> None:
        """Silence the runtime below errors. The exporter (torch.onnx, onnxscript) is imported when it exports."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Export, or take what an earlier process of the case exported; make the session."""
        import onnxruntime
        import torch

        torch.set_num_threads(self.threads)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        start = time.perf_counter()
        kept = self.kept("onnx")
        reused = kept is not None and kept.is_dir()
        with tempfile.TemporaryDirectory() as temporary:
            folder = kept if kept is not None and reused else Path(temporary) / "onnx"
            if not reused:
                folder.mkdir()
                _export(model, inputs, folder / "model.onnx")
            exported = time.perf_counter()
            session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
            compiled = time.perf_counter()
            artifact = sum(file.stat().st_size for file in folder.iterdir())
            if kept is not None and not reused:
                shutil.copytree(folder, kept.with_name("onnx.partial"), dirs_exist_ok=True)
                kept.with_name("onnx.partial").rename(kept)  # appears only when it is complete
        names = [entry.name for entry in session.get_inputs()]

        def call_numpy(*arguments: np.ndarray) -> list[np.ndarray]:
            found: list[np.ndarray] = session.run(None, dict(zip(names, arguments, strict=True)))
            return found

        def call(*arguments: Tensor) -> list[Tensor]:
            feed = {name: tensor.numpy() for name, tensor in zip(names, arguments, strict=True)}
            return [torch.from_numpy(array) for array in session.run(None, feed)]

        export_s = None if reused else exported - start
        chosen = call_numpy if self.io == "numpy" else call
        return Prepared(chosen, export_s, compiled - exported, {"artifact_bytes": artifact})


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
