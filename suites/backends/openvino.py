"""OpenVINO: CPU plugin with the latency hint (one stream), computing in the precision of the case.

Left to itself, the plugin computes float32 models in bfloat16 where the processor can. A rounded model is computed in
its own type where the processor can, and not at all elsewhere.

Pinning of its own is off: the harness has put the process on its processors already, and on a machine where that was
tried (one processor) it made no difference (47 and 48 us a call of a small network).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites.backends import _onnx_values
from suites.backends.base import Backend, BackendSwitch, Generator, NotApplicable, Prepared, Scheme
from suites.harness.errors import Unavailable
from suites.harness.record import machine
from suites.models.user.onnx_file import OnnxFile

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from suites.models.nets.generation import Generation


SETTINGS: dict[str, dict[str, Any]] = {
    "hint": {
        "throughput": {"PERFORMANCE_HINT": "THROUGHPUT"},
        "cumulative": {"PERFORMANCE_HINT": "CUMULATIVE_THROUGHPUT"},
    },
    "streams": {"2": {"NUM_STREAMS": "2"}},
    "pinning": {"on": {"ENABLE_CPU_PINNING": True}},
    "hyper_threading": {"off": {"ENABLE_HYPER_THREADING": False}},
    "denormals": {"off": {"CPU_DENORMALS_OPTIMIZATION": True}},
    "accuracy": {"execution": {"EXECUTION_MODE_HINT": "ACCURACY"}},
    "snippets": {"off": {"SNIPPETS_MODE": "DISABLE"}},
    "float_parts": {"bf16": {"INFERENCE_PRECISION_HINT": "bf16"}},
}
"""Option -> value that is not usual -> properties of the CPU plugin. ``float_parts`` is of models that are quantised.
"""
TYPES = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8_dynamic": "f32"}
"""Precision -> OpenVINO's name of the type in which it computes floats, the hint of the inference precision."""

_SCRIPT = """\
import openvino
converted = openvino.convert_model(torch.export.export(model, inputs))
compiled = openvino.compile_model(converted, "CPU", {{"INFERENCE_PRECISION_HINT": "{type}"}})
results = [{found} for y in compiled([{given}]).values()]
"""


class OpenVino(Backend):
    """Converts the program that `torch.export` gives; later processes of a case read the converted file. Reads an ONNX
    file itself, with the case's sizes in place of open axes.

    Options: `SETTINGS`.
    """

    takes_numpy = True
    runs = ("module", "onnx")
    values: ClassVar[Mapping[str, Sequence[str]]] = {name: tuple(known) for name, known in SETTINGS.items()}
    schemes: ClassVar[Mapping[str, Scheme]] = {
        "int8_dynamic": Scheme(
            "activations have one fixed scale a tensor (NNCF, post-training quantisation)",
            "own activations",
            needs=("nncf",),
            is_calibrated=True,
        )
    }
    keeps = "openvino_ir"
    scripts: ClassVar[Mapping[str, str]] = {
        "fp32": _SCRIPT.format(type="f32", given="x.numpy() for x in inputs", found="torch.from_numpy(y)"),
        "bf16": _SCRIPT.format(
            type="bf16",
            given="openvino.Tensor(x.view(torch.int16).numpy(), list(x.shape), openvino.Type.bf16) for x in inputs",
            found="torch.from_numpy(y).view(torch.bfloat16)",
        ),
    }
    _read_from: Any = None
    """OpenVINO 2026.4 reads bfloat16 weights where torch has them, and keeps nobody from freeing them."""

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        return [
            BackendSwitch("hint", f"{name}={value}", {name: value}, usual=name != "float_parts")
            for name, values in SETTINGS.items()
            for value in values
        ]

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        import torch

        compiled, export_s, compile_s = self._compiled(
            model, inputs, change=lambda converted: _reshape(converted, [list(tensor.shape) for tensor in inputs])
        )
        request, count = compiled.create_infer_request(), len(compiled.outputs)

        def call_numpy(*arguments: np.ndarray) -> list[np.ndarray]:
            results = request.infer(list(arguments), share_inputs=True)
            return [results[index] for index in range(count)]

        def call(*arguments: Tensor) -> list[Tensor]:
            # share_outputs stays off: a caller may keep a result while the next call runs
            results = request.infer([tensor.numpy() for tensor in arguments], share_inputs=True)
            return [torch.from_numpy(results[index]) for index in range(count)]

        is_bits = [output.element_type.get_type_name() == "bf16" for output in compiled.outputs]

        def call_bits(*arguments: Tensor) -> list[Tensor]:
            # NumPy has no bfloat16: such tensors are passed as their bits.
            results = request.infer(list(map(_share, arguments)), share_inputs=True)
            found = [torch.from_numpy(results[index]) for index in range(count)]
            return [one.view(torch.bfloat16) if bits else one for one, bits in zip(found, is_bits, strict=True)]

        chosen = call_bits if self.precision == "bf16" else call_numpy if self.io == "numpy" else call
        computed = self.precision if self.precision in self.schemes else _computed(compiled)
        return Prepared(chosen, export_s, compile_s, _described(compiled), precision=computed)

    def show(
        self, program: ExportedProgram, names: Collection[str], inputs: Sequence[np.ndarray]
    ) -> tuple[Mapping[str, np.ndarray], str]:
        """As `Backend.show`, of the ONNX file of the program: there the values have names."""
        import openvino

        with tempfile.TemporaryDirectory() as folder:
            plain, more = Path(folder) / "model.onnx", Path(folder) / "more.onnx"
            found = _onnx_values.write(program, names, plain, more)
            models = [openvino.compile_model(one, "CPU", self._settings()) for one in (plain, more)]
            results = models[1](list(inputs))
            shown = {name: results[value].copy() for name, value in found.items()}
        count, usual = (len(one.get_runtime_model().get_ops()) for one in reversed(models))
        return shown, f"openvino runs {count} nodes of the ONNX file where it shows these values, {usual} otherwise."

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002  # part of the interface
        """Keys and values become the state of the request, as OpenVINO's documentation recommends for generating."""
        import torch

        if self.precision != "fp32":
            raise Unavailable("openvino generates text in fp32 alone")
        module = model.with_past()
        arguments, vary = module.example(model.batch)
        shapes = [[model.batch, -1], *(list(shape) for shape in module.shapes(model.batch, -1))]
        compiled, export_s, compile_s = self._compiled(
            module, arguments, vary, lambda converted: _keep_past(converted, shapes)
        )
        request = compiled.create_infer_request()

        def step(ids: Tensor) -> Tensor:
            return torch.from_numpy(request.infer([ids.numpy()], share_inputs=True)[0])

        def begin(ids: Tensor) -> Tensor:
            request.reset_state()
            return step(ids)

        return Generator(begin, step, export_s, compile_s, _described(compiled))

    def _settings(self) -> dict[str, Any]:
        """Properties of the CPU plugin."""
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": TYPES[self.precision],
            "ENABLE_CPU_PINNING": False,
        }
        for name, value in self.options.items():
            settings |= SETTINGS[name][value]
        return settings

    def _compiled(
        self,
        model: nn.Module | OnnxFile,
        arguments: tuple[Any, ...],
        dynamic_shapes: Any = None,
        change: Callable[[Any], None] = lambda _converted: None,
    ) -> tuple[Any, float | None, float]:
        """The compiled model, seconds of export, conversion and quantising (None: an earlier process of the
        case had done it), and of the rest.
        """
        import openvino
        import torch

        torch.set_num_threads(self.threads)
        if "float_parts" in self.options and self.precision not in self.schemes:
            raise NotApplicable("float_parts is of models that are quantised")
        settings = self._settings()
        core = openvino.Core()
        able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        floats = next(name for name, one in TYPES.items() if one == settings["INFERENCE_PRECISION_HINT"])
        if floats != "fp32" and floats.upper() not in able:
            raise Unavailable(f"openvino computes in {', '.join(able)} on this processor, not in {floats}")
        start = time.perf_counter()
        kept = self.kept(self.keeps)
        exported: float | None = None
        converted: Any
        if isinstance(model, OnnxFile):
            converted = core.read_model(model.path)
            converted.reshape({one.name: list(model.shape(one)) for one in model.inputs})
        elif kept is not None and kept.exists():
            converted = kept / "model.xml"
        else:
            with warnings.catch_warnings():  # of the process, which exists for this backend
                warnings.simplefilter("ignore")
                program = torch.export.export(model, arguments, dynamic_shapes=dynamic_shapes)
                converted = openvino.convert_model(program)
            if self.precision == "bf16":
                self._read_from = program
            change(converted)
            if self.precision in self.schemes:
                converted = _quantise(converted, self.calibration())
            exported = time.perf_counter()
        compiled = core.compile_model(converted, "CPU", settings)
        ready = time.perf_counter()
        if kept is not None and exported is not None:
            partial = kept.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            openvino.save_model(converted, partial / "model.xml", compress_to_fp16=False)
            partial.rename(kept)  # appears only when it is complete
        export_s = None if exported is None else exported - start
        return compiled, export_s, ready - start - (export_s or 0.0)


_DECIDED = ("NUM_STREAMS", "INFERENCE_NUM_THREADS", "ENABLE_CPU_PINNING", "ENABLE_HYPER_THREADING",
            "INFERENCE_PRECISION_HINT", "EXECUTION_MODE_HINT", "CPU_DENORMALS_OPTIMIZATION")  # fmt: skip
"""What the plugin may have decided for itself when it compiled."""


def _described(compiled: Any) -> dict[str, Any]:
    """Facts: `nodes` that run, a `run_digest` of their kernels and settings, and how many there are of each type."""
    found: list[Any] = [[name, str(compiled.get_property(name))] for name in _DECIDED]
    nodes = compiled.get_runtime_model().get_ordered_ops()
    layers: Counter[str] = Counter()
    for node in nodes:
        about = node.get_rt_info()
        layer, *more = [str(about[key].astype(str)) for key in ("layerType", "primitiveType", "outputLayouts")]
        found.append([layer, *more])
        layers[layer] += 1
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
    details = {"layers": dict(sorted(layers.items())), "floats": _computed(compiled)}
    return {"nodes": len(nodes), "run_digest": digest, "details": details}


def _quantise(converted: Any, calibration: Sequence[Sequence[Tensor]]) -> Any:
    """`converted` with weights and activations of 8 bits: the scheme that NNCF chooses, for transformers where the
    model has attention. Weights have 7 bits where `machine.sums_saturate`, as its documentation recommends.
    """
    import nncf

    nncf.set_log_level(logging.ERROR)
    kinds = {node.get_type_name() for node in converted.get_ops()}
    is_transformer = bool(kinds & {"ScaledDotProductAttention", "Softmax"})
    sets = nncf.Dataset([tuple(tensor.numpy() for tensor in inputs) for inputs in calibration])
    with contextlib.redirect_stdout(io.StringIO()):  # its bars of progress; the process exists for this backend
        return nncf.quantize(
            converted,
            sets,
            subset_size=len(calibration),
            model_type=nncf.ModelType.TRANSFORMER if is_transformer else None,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=nncf.OverflowFix.ENABLE if machine.sums_saturate() else None
            ),
        )


def _computed(compiled: Any) -> str:
    """The precision that the plugin chose to compute floats in, by its own word."""
    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    return next((name for name, type_name in TYPES.items() if type_name == chosen), str(chosen))


def _share(tensor: Tensor) -> Any:
    """`tensor` as OpenVINO takes it, without a copy."""
    import openvino
    import torch

    if tensor.dtype is not torch.bfloat16:
        return tensor.numpy()
    return openvino.Tensor(tensor.contiguous().view(torch.int16).numpy(), list(tensor.shape), openvino.Type.bf16)


def _reshape(converted: Any, shapes: Sequence[Sequence[int]]) -> None:
    """Give the inputs these shapes; -1 varies. The converter leaves sizes open, for which kernels are slower."""
    import openvino

    converted.reshape(dict(zip(converted.inputs, map(openvino.PartialShape, shapes), strict=True)))


def _keep_past(converted: Any, shapes: Sequence[Sequence[int]]) -> None:
    """Turn every input but the first, and every output but the first, into state that starts empty."""
    from openvino._offline_transformations import apply_make_stateful_transformation

    _reshape(converted, shapes)
    pairs = {}
    for number, (past, present) in enumerate(zip(converted.inputs[1:], converted.outputs[1:], strict=True)):
        pairs[f"past_{number}"] = f"present_{number}"
        past.get_tensor().set_names({f"past_{number}"})
        present.get_tensor().set_names({f"present_{number}"})
    apply_make_stateful_transformation(converted, pairs)
