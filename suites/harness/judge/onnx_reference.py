"""The answer that runtimes of an ONNX file are checked against: `onnx.reference`, which is no runtime, in float64.

For float64 the file's floating weights, constants and casts become float64. Where an operator still makes a smaller
floating value, the model's own dtype is the reference. ONNX Runtime with every optimisation off judges a file that
`onnx.reference` cannot run; then the note of the reference says so. Knows no backend.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suites.harness.judge.verify import Reference, compare, describe_change
from suites.harness.record.reasons import clean
from suites.models import ModelError
from suites.models.user.onnx_file import OnnxFile

_CASTS = ("to", "dtype")
"""Attributes that name an element type: of Cast, and of operators that make values."""


def compute(model: OnnxFile, inputs: Sequence[Sequence[np.ndarray]]) -> list[Reference]:
    """One `Reference` for each set of inputs, which are in the order of the file.

    Raises:
        ModelError: the file cannot be read; neither judge can run it; or outputs depend on random numbers.
    """
    import onnx

    try:
        proto = onnx.load(model.path)
    except Exception as error:
        raise ModelError(f"{model.path.name}: onnx.load cannot read it: {_first_line(error)}") from error
    size = sum(tensor.ByteSize() for tensor in proto.graph.initializer)
    drawing = _forget_seeds(proto)
    feeds = [dict(zip((tensor.name for tensor in model.inputs), arrays, strict=True)) for arrays in inputs]
    calls = [*feeds, *(feeds[:1] if drawing else [])]
    exact: list[list[np.ndarray]] = []
    try:
        own, note = _outputs(proto, calls), None
    except Exception as error:  # noqa: BLE001  # whatever an operator raises
        own, note = _ask_runtime(model, proto, calls, _first_line(error))
    else:
        try:
            _widen(proto)
            wide = [{name: _wide(array) for name, array in feed.items()} for feed in feeds]
            exact = _outputs(proto, wide, is_wide=True)
        except Exception as error:  # noqa: BLE001  # whatever an operator raises that does not know float64
            note = describe_narrow(error)
    references = [
        Reference(arrays, [str(array.dtype) for array in arrays], None, note, weight_bytes=size)
        for arrays in own[: len(feeds)]
    ]
    if exact:
        references = [widen(reference, arrays) for reference, arrays in zip(references, exact, strict=True)]
    if drawing and (change := describe_change(own[0], own[-1], references[0])):
        raise ModelError(
            f"{model.path.name}: {change}, so nothing can be verified; its operators {', '.join(drawing)} draw random "
            "numbers: give these to the model as an input, or export it in evaluation mode"
        )
    return references


def widen(reference: Reference, exact: Sequence[np.ndarray]) -> Reference:
    """A reference in the model's own dtype with float64 outputs in their place, and the errors against these."""
    errors = [compare(narrow, wide).relative for narrow, wide in zip(reference.outputs, exact, strict=True)]
    return replace(reference, outputs=exact, eager_errors=errors)


def describe_narrow(error: Exception) -> str:
    """The note of a reference that `error` keeps from float64."""
    return f"reference in the model's own dtype: {_first_line(error)}"


def _ask_runtime(
    model: OnnxFile, proto: Any, feeds: Sequence[dict[str, np.ndarray]], reason: str
) -> tuple[list[list[np.ndarray]], str]:
    """Outputs of ONNX Runtime, and the note about them; `reason` is why `onnx.reference` cannot run the model."""
    import onnx

    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        with tempfile.TemporaryDirectory(prefix="enginebench-") as folder:
            path = Path(folder) / "model.onnx"
            onnx.save_model(proto, path, save_as_external_data=True, location="weights")
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            names = [output.name for output in proto.graph.output]
            own = [_check_tensors(dict(zip(names, session.run(names, feed), strict=True))) for feed in feeds]
    except Exception as error:
        raise ModelError(
            f"{model.path.name}: nothing can be checked: onnx.reference cannot run it ({reason}), and neither can ONNX "
            f"Runtime ({clean(_first_line(error))})"
        ) from error
    return own, (
        "checked against ONNX Runtime with every optimisation off, which is no independent judge of rows of "
        f"onnxruntime; onnx.reference cannot run the file: {reason}"
    )


_DRAWING = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that draw random numbers, or may do so."""


def _forget_seeds(proto: Any) -> list[str]:
    """The operators of the model that may draw random numbers. Their seeds are removed, because runtimes draw other
    numbers from the same seed: the outputs must not depend on it.
    """
    nodes = [node for graph in _graphs(proto) for node in graph.node if node.op_type in _DRAWING and not node.domain]
    for node in nodes:
        for attribute in [one for one in node.attribute if one.name == "seed"]:
            node.attribute.remove(attribute)
    return sorted({node.op_type for node in nodes})


def _outputs(proto: Any, feeds: Iterable[dict[str, np.ndarray]], *, is_wide: bool = False) -> list[list[np.ndarray]]:
    """Outputs of one run for each feed; TypeError if one is not a tensor, or if an `is_wide` run leaves float64."""
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        evaluator = ReferenceEvaluator(proto)
        outputs = []
        for feed in feeds:
            values: Any = evaluator.run(None, feed, intermediate=True)
            narrow = [name for name, value in values.items() if is_wide and _is_narrow(value)]
            if narrow:
                raise TypeError(f"value {narrow[0]} stayed {values[narrow[0]].dtype} in the float64 run")
            outputs.append(_check_tensors({output.name: values[output.name] for output in proto.graph.output}))
    return outputs


def _check_tensors(results: Mapping[str, Any]) -> list[np.ndarray]:
    """Outputs by name -> arrays; TypeError for one that is no tensor."""
    for name, value in results.items():
        if not isinstance(value, np.ndarray | np.generic):
            raise TypeError(f"output {name} is {type(value).__name__}, expected a tensor")
    return [np.asarray(value) for value in results.values()]


def _graphs(proto: Any) -> Iterator[Any]:
    """The graph, its functions, and the graphs inside of nodes."""
    waiting = [proto.graph, *proto.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            waiting += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _widen(proto: Any) -> None:
    """Turn floating weights, constants and casts of the model into float64, in place."""
    for graph in _graphs(proto):
        if getattr(graph, "sparse_initializer", ()):  # a function has no weights
            raise TypeError("sparse weights have no float64 form")
        for tensor in getattr(graph, "initializer", ()):
            _widen_tensor(tensor)
        for node in graph.node:
            _widen_node(node)


def _widen_node(node: Any) -> None:
    import onnx

    narrow = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _widen_tensor(attribute.t)
        for tensor in attribute.tensors:
            _widen_tensor(tensor)
        if attribute.name in _CASTS and attribute.i in narrow:
            attribute.i = onnx.TensorProto.DOUBLE
    values = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "ConstantOfShape" and "value" not in values:
        node.attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.zeros(1))))
    if node.op_type == "Constant" and (given := values.keys() & {"value_float", "value_floats"}):
        given_value = values[given.pop()]
        is_single = given_value.name == "value_float"
        array = np.array(given_value.f if is_single else given_value.floats, np.float64)
        node.attribute.remove(given_value)
        node.attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(array)))


def _widen_tensor(tensor: Any) -> None:
    import onnx

    array = onnx.numpy_helper.to_array(tensor)
    if _is_narrow(array):
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(array, np.float64)))
        tensor.name = name


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if _is_narrow(array) else array


def _is_narrow(value: Any) -> bool:
    """True for floating values of fewer bits than float64, bfloat16 included."""
    return hasattr(value, "dtype") and str(value.dtype) in ("float32", "float16", "bfloat16")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
