"""The answer that runtimes of an ONNX file are checked against: `onnx.reference`, which is no runtime, in float64.

For float64 the file's floating weights, constants and casts become float64. Where an operator still makes a smaller
floating value, the model's own dtype is the reference. ONNX Runtime with every optimisation off judges a file that
`onnx.reference` cannot run; then the note of the reference says so. Knows no backend.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
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
        ModelError: the file cannot be read; neither judge can run it, names the operators that are not of ONNX; or
            outputs depend on random numbers.
    """
    import onnx

    try:
        proto = onnx.load(model.path)
    except Exception as error:
        raise ModelError(f"{model.path.name}: onnx.load cannot read it: {_first_line(error)}") from error
    size = sum(tensor.ByteSize() for tensor in proto.graph.initializer)
    drawing = _forget_seeds(proto)
    feeds = [dict(zip((one.name for one in model.inputs), arrays, strict=True)) for arrays in inputs]
    calls = [*feeds, *(feeds[:1] if drawing else [])]
    own: list[list[np.ndarray]] = []
    reason = _describe_foreign(proto)
    if reason is None:
        try:
            own = _outputs(proto, calls)
        except Exception as error:  # noqa: BLE001  # whatever an operator raises
            reason = _first_line(error)
    if reason is None:
        found = _references(proto, feeds, own[: len(feeds)])
    else:
        own, note = _ask_runtime(model, proto, calls, reason)
        found = [Reference(arrays, [str(one.dtype) for one in arrays], None, note) for arrays in own[: len(feeds)]]
    change = describe_change(own[0], own[-1], found[0]) if drawing else None
    if change is not None:
        raise ModelError(
            f"{model.path.name}: {change}, so nothing can be verified; its operators {', '.join(drawing)} draw random "
            "numbers: give these to the model as an input, or export it in evaluation mode"
        )
    return [replace(one, weight_bytes=size) for one in found]


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
            names = [one.name for one in proto.graph.output]
            own = [_check_tensors(dict(zip(names, session.run(names, feed), strict=True))) for feed in feeds]
    except Exception as error:
        raise ModelError(
            f"{model.path.name}: nothing can be checked: onnx.reference cannot run it ({reason}), and neither can ONNX "
            f"Runtime ({clean(_first_line(error))})"
        ) from error
    note = (
        "checked against ONNX Runtime with every optimisation off, which is no independent judge of rows of "
        f"onnxruntime; onnx.reference cannot run the file: {reason}"
    )
    return own, note


def _references(
    proto: Any, feeds: Sequence[dict[str, np.ndarray]], own: Sequence[Sequence[np.ndarray]]
) -> list[Reference]:
    """In float64 if that is possible; `own` are the outputs in the types of the file, which this changes."""
    dtypes = [[str(array.dtype) for array in arrays] for arrays in own]
    try:
        _widen(proto)
        exact = _outputs(proto, [{name: _wide(array) for name, array in feed.items()} for feed in feeds], wide=True)
    except Exception as error:  # noqa: BLE001  # whatever an operator raises that does not know float64
        note = f"reference in the model's own dtype: {_first_line(error)}"
        pairs = zip(own, dtypes, strict=True)
        return [Reference(arrays, kinds, None, note) for arrays, kinds in pairs]
    found = []
    for arrays, kinds, mine in zip(exact, dtypes, own, strict=True):
        errors = [compare(one, other).relative for one, other in zip(mine, arrays, strict=True)]
        found.append(Reference(arrays, kinds, errors, None))
    return found


_DRAWING = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that draw random numbers, or may do so."""


def _forget_seeds(proto: Any) -> list[str]:
    """The operators of the model that may draw random numbers. Their seeds are removed, because runtimes draw other
    numbers from the same seed: the outputs must not depend on it.
    """
    found = [node for nodes in _graphs(proto) for node in nodes if node.op_type in _DRAWING and not node.domain]
    for node in found:
        for attribute in [one for one in node.attribute if one.name == "seed"]:
            node.attribute.remove(attribute)
    return sorted({node.op_type for node in found})


def _outputs(proto: Any, feeds: Iterable[dict[str, np.ndarray]], *, wide: bool = False) -> list[list[np.ndarray]]:
    """Outputs of one run for each feed. TypeError where an output is not a tensor, or a `wide` run leaves float64."""
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        evaluator = ReferenceEvaluator(proto)
        found = []
        for feed in feeds:
            values: Any = evaluator.run(None, feed, intermediate=True)
            narrow = [name for name, value in values.items() if wide and _is_narrow(value)]
            if narrow:
                raise TypeError(f"value {narrow[0]} stayed {values[narrow[0]].dtype} in the float64 run")
            found.append(_check_tensors({one.name: values[one.name] for one in proto.graph.output}))
    return found


def _check_tensors(results: Mapping[str, Any]) -> list[np.ndarray]:
    """Outputs by name -> arrays; TypeError for one that is no tensor."""
    for name, value in results.items():
        if not isinstance(value, np.ndarray | np.generic):
            raise TypeError(f"output {name} is {type(value).__name__}, expected a tensor")
    return [np.asarray(value) for value in results.values()]


def _describe_foreign(proto: Any) -> str | None:
    """A line with the operators that neither the ONNX standard nor the file defines; None if there are none."""
    import onnx

    own = {(one.domain, one.name) for one in proto.functions}
    used = {(node.domain, node.op_type) for graph in _graphs(proto) for node in graph}
    foreign = [key for key in sorted(used - own) if not onnx.defs.has(key[1], "" if key[0] == "ai.onnx" else key[0])]
    named = ", ".join(f"{domain}:{name}" if domain else name for domain, name in foreign)
    return f"operators that ONNX does not define: {named}" if named else None


def _graphs(proto: Any) -> Iterable[Any]:
    """The nodes of the graph, of its functions and of the graphs inside of nodes."""
    waiting = [proto.graph.node, *(one.node for one in proto.functions)]
    while waiting:
        nodes = waiting.pop()
        yield nodes
        inner = [one for node in nodes for attribute in node.attribute for one in _inner(attribute)]
        waiting += [one.node for one in inner]


def _inner(attribute: Any) -> list[Any]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _widen(proto: Any) -> None:
    """Turn floating weights, constants and casts of the model into float64, in place."""
    for graph in (proto.graph, *(one for nodes in _graphs(proto) for node in nodes for one in _inner_of(node))):
        if graph.sparse_initializer:
            raise TypeError("sparse weights have no float64 form")
        for tensor in graph.initializer:
            _widen_tensor(tensor)
    for nodes in _graphs(proto):
        for node in nodes:
            _widen_node(node)


def _inner_of(node: Any) -> list[Any]:
    return [one for attribute in node.attribute for one in _inner(attribute)]


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
    values = {one.name: one for one in node.attribute}
    if node.op_type == "ConstantOfShape" and "value" not in values:
        node.attribute.append(onnx.helper.make_attribute("value", _tensor(np.zeros(1))))
    if node.op_type == "Constant" and (given := values.keys() & {"value_float", "value_floats"}):
        one = values[given.pop()]
        array = np.float64(one.f) if one.name == "value_float" else np.array(one.floats, np.float64)
        node.attribute.remove(one)
        node.attribute.append(onnx.helper.make_attribute("value", _tensor(array)))


def _widen_tensor(tensor: Any) -> None:
    import onnx

    array = onnx.numpy_helper.to_array(tensor)
    if _is_narrow(array):
        name = tensor.name
        tensor.CopyFrom(_tensor(array.astype(np.float64)))
        tensor.name = name


def _tensor(array: Any) -> Any:
    import onnx

    return onnx.numpy_helper.from_array(np.asarray(array))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if _is_narrow(array) else array


def _is_narrow(value: Any) -> bool:
    """True for floating values of fewer bits than float64, bfloat16 included."""
    return hasattr(value, "dtype") and str(value.dtype) in ("float32", "float16", "bfloat16")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
