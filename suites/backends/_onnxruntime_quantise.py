"""Quantises an ONNX file with ONNX Runtime's tools: the weights alone, or weights and activations."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.backends import _onnxruntime_graph as graph
from suites.harness.errors import Unavailable
from suites.harness.record import machine

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

BLOCK = 32
"""Elements that share a scale where weights alone are quantised: the smallest block that the tool recommends."""
ACCURACY_LEVEL = 4
"""Of `MatMulNBits`: activations are quantised to 8 bits in the same blocks, and products are of integers. If it is not
set, each product decodes the weight to float32 first, which is far slower."""
_PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")


def quantise_weights(source: Path, target: Path) -> None:
    """Write the model in `source` with weights of 8 bits in blocks of `BLOCK` elements along the summed axis.

    Products are `MatMulNBits` of `ACCURACY_LEVEL`.

    Raises:
        Unavailable: a weight would stay float32.
    """
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer, logger

    logger.setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as temporary:
        model = onnx.load(_prepare(source, Path(temporary)))
        quantizer = MatMulNBitsQuantizer(
            model, block_size=BLOCK, is_symmetric=True, bits=8, accuracy_level=ACCURACY_LEVEL
        )
        quantizer.process()
        quantizer.model.save_model_to_file(str(target), use_external_data_format=True)
    _check_quantised(target)


def quantise_dynamically(source: Path, target: Path) -> None:
    """Write the model in `source` with int8 weights, a scale for each output channel, whose products quantise their
    activations when they run: `quantize_dynamic`.

    An int8 weight has 7 bits (-64..64) where `machine.sums_saturate`, as ONNX Runtime's documentation recommends for
    such processors. With 8 bits its results were wrong there.

    Raises:
        Unavailable: a weight would stay float32, or the model has convolutions. ONNX Runtime's documentation recommends
            static quantisation for those, which needs sample data.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as temporary, _silent():
        prepared = _prepare(source, Path(temporary))
        if any(kind.startswith("Conv") for kind in _count_weights(prepared)):
            raise Unavailable("ONNX Runtime's documentation recommends static quantisation of convolutions, not this")
        quantize_dynamic(
            prepared,
            target,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=machine.sums_saturate(),
            use_external_data_format=True,
        )
    _check_quantised(target)


def quantise_statically(source: Path, target: Path, calibration: Sequence[Sequence[Tensor]]) -> None:
    """Write the model in `source` with int8 weights, a scale for each output channel, and activations of one scale a
    tensor, which covers what they are for the inputs of `calibration`: `quantize_static` in the format QDQ.

    Weights have 7 bits as of `quantise_dynamically`. With convolutions all operators are quantised, as the tool does by
    itself; without, products alone: quantising a softmax and its like made `minilm` wrong and saved no time.

    Raises:
        Unavailable: a weight would stay float32.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory() as temporary, _silent():
        prepared = _prepare(source, Path(temporary))
        has_convolutions = any(kind.startswith("Conv") for kind in _count_weights(prepared))
        quantize_static(
            prepared,
            target,
            _Calibration(source, calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=machine.sums_saturate(),
            op_types_to_quantize=None if has_convolutions else list(_PRODUCTS),
            use_external_data_format=True,
        )
    _check_quantised(target)


class _Calibration:
    """Sets of inputs as the tool asks for them: a dict by name for each call, None after the last one."""

    def __init__(self, source: Path, sets: Sequence[Sequence[Tensor]]) -> None:
        import onnx

        names = [one.name for one in onnx.load(source, load_external_data=False).graph.input]
        self._feeds = iter([{name: one.numpy() for name, one in zip(names, tensors, strict=True)} for tensors in sets])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


@contextmanager
def _silent() -> Iterator[None]:
    """The tools advise on the root logger."""
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger().setLevel(level)


def _prepare(source: Path, folder: Path) -> Path:
    """What ONNX Runtime's documentation recommends before quantising: the graph with constants folded.

    Without it a head that shares the table of embeddings is a transposed constant, which the tools do not quantise. The
    tool for weights alone knows no ``Gemm``, so each becomes a ``MatMul`` and an ``Add``, as `quantize_dynamic` does.
    """
    import onnx
    import onnxruntime
    from onnxruntime.quantization.onnx_model import ONNXModel

    target = folder / "prepared.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    graph.write_optimised(options, target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    model = ONNXModel(onnx.load(target))
    model.replace_gemm_with_matmul()
    del model.model.graph.value_info[:]  # shapes of before, which the tools would compare with those of now
    changed = folder / "changed"
    changed.mkdir()
    model.save_model_to_file(str(changed / "model.onnx"), use_external_data_format=True)
    return changed / "model.onnx"


def _count_weights(path: Path) -> Counter[str]:
    """Operator -> how many nodes of it have a constant factor of two axes or more in a floating-point type."""
    import onnx

    graph: Any = onnx.load(path, load_external_data=False).graph
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    weights = {one.name for one in graph.initializer if len(one.dims) > 1 and one.data_type in floats}
    return Counter(node.op_type for node in graph.node if node.op_type in _PRODUCTS and weights & set(node.input))


def _check_quantised(path: Path) -> None:
    if left := _count_weights(path):
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(left.items()))
        raise Unavailable(f"ONNX Runtime's tool leaves weights in float32: those of {found}")
