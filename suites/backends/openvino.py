"""OpenVINO (optional): CPU plugin with the latency hint, computing in float32 like everybody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from suites.backends.base import Backend, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn


class OpenVino(Backend):
    """Converts the program that `torch.export` gives."""

    def load(self) -> None:
        """Nothing beyond the import."""

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Export, convert, compile for the CPU."""
        import openvino
        import torch

        start = time.perf_counter()
        program = torch.export.export(model, inputs)
        exported = time.perf_counter()
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(openvino.convert_model(program), "CPU", settings)
        request = compiled.create_infer_request()
        seconds = time.perf_counter() - exported
        count = len(compiled.outputs)

        def call(*arguments: Tensor) -> list[Tensor]:
            # share_outputs stays off: a caller may keep a result while the next call runs
            results = request.infer([tensor.numpy() for tensor in arguments], share_inputs=True)
            return [torch.from_numpy(results[index]) for index in range(count)]

        return Prepared(call, exported - start, seconds)
