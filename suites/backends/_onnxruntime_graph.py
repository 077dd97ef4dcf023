"""ONNX Runtime's graph transformers by name, and what they made of a graph. Imports onnx where a graph is read.

``python -m suites.backends._onnxruntime_graph QUESTION`` describes an optimised graph in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.paths import IMPORTED_FROM

# What `disabled_optimizers` may name for the CPU provider, in the order in which a session runs them: rewrite rules,
# other graph transformers on ONNX's own operators, those that make operators of ONNX Runtime's, and layouts. Those for
# quantised models, and those for other providers, are left out. A name that a version does not have changes nothing.
TRANSFORMERS = (
    "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination",
    "CastElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion", "FuseReluClip", "GemmSumFusion",
    "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion", "ConvBNFusion", "Pad_Fusion",
    "MatMul_BatchNormalization_Fusion",
    "ConstantSharing", "CommonSubexpressionElimination", "ConstantFolding", "MatMulAddFusion", "ReshapeFusion",
    "GeluFusionL1", "LayerNormFusionL1", "TransposeOptimizer",
    "GemmActivationFusion", "ConvActivationFusion", "GeluFusionL2", "LayerNormFusionL2", "SimplifiedLayerNormFusion",
    "AttentionFusion", "EmbedLayerNormFusion", "GatherSliceToSplitFusion", "GatherToSliceFusion",
    "MatmulTransposeFusion", "BiasGeluFusion", "SkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion",
    "BiasSoftmaxFusion", "MatMulScaleFusion", "MatMulActivationFusion", "GroupQueryAttentionFusion",
    "NchwcTransformer", "NhwcTransformer", "ConvAddActivationFusion",
)  # fmt: skip

_SMALL_BYTES = 64
"""Constants up to this size are part of what a graph does (axes, shapes, scales); larger ones are weights."""


def described(path: Path, exported: Path) -> dict[str, Any]:
    """Facts of the model in the file at `path`, without its weights: `nodes`, `run_digest`, and in `details` under
    `made` the operators that it has more often than the model in the file `exported`, which fusions made.

    The digest knows operators, attributes, small constants and how nodes hang together, and no names, which a fusion
    that did not fire may still have numbered differently.
    """
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers)) if name else -1

    found: list[Any] = [[number(entry.name) for entry in graph.input]]
    for one in sorted(graph.initializer, key=lambda one: one.name):
        small = one.raw_data.hex() if len(one.raw_data) <= _SMALL_BYTES and not one.external_data else ""
        found.append([number(one.name), list(one.dims), one.data_type, small])
    for node in graph.node:
        attributes = sorted(attribute.SerializeToString(deterministic=True).hex() for attribute in node.attribute)
        ends = [[number(name) for name in names] for names in (node.input, node.output)]
        found.append([node.domain, node.op_type, attributes, *ends])
    more = operators(path) - operators(exported)
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
    return {"nodes": len(graph.node), "run_digest": digest, "details": {"made": dict(sorted(more.items()))}}


def operators(path: Path) -> Counter[str]:
    """How often each operator occurs in the model in the file at `path`.

    ONNX Runtime's forms of ONNX's own operators, as in ``com.microsoft.nchwc``, are other operators.
    """
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    parts = [(node.domain.removeprefix("com.microsoft").rpartition(".")[2], node.op_type) for node in nodes]
    return Counter(f"{form}.{name}" if form not in ("", "onnx") else name for form, name in parts)


def optimise(source: Path, family: str, target: Path) -> Mapping[str, int]:
    """Run ONNX Runtime's offline optimiser for transformers of a `family` (``bert``, ``gpt2``, ...) on a model file.

    Heads and width are found in the graph. Returns how often it made each operator. Those that the model had before are
    not counted, as its own statistics do.
    """
    from onnxruntime.transformers import optimizer

    had = operators(source)
    made = optimizer.optimize_model(str(source), model_type=family, num_heads=0, hidden_size=0, opt_level=0)
    made.save_model_to_file(str(target), use_external_data_format=True)
    counts: Mapping[str, int] = made.get_fused_operator_statistics()
    return {name: count - had[name] for name, count in sorted(counts.items()) if count > had[name]}


def write_optimised(options: Any, path: Path) -> None:
    """Have a session with `options` write the graph that it runs to `path`, weights to a file beside it.

    Without that file a graph of more than 2 GB, the limit of its format, could not be written.
    """
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{path.name}.weights")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")


def described_elsewhere(source: Path, exported: Path, level: str, without: Sequence[str]) -> dict[str, Any]:
    """`described` of what a session makes of the model at `source`, at a `level` as onnxruntime names it.

    The session lives in a process of its own, so that neither its time nor its memory is in what this process measures.
    Where that process fails, only ``details`` is returned, with the reason under `undescribed`.
    """
    question = json.dumps({"source": str(source), "exported": str(exported), "level": level, "without": [*without]})
    paths = [str(IMPORTED_FROM), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", __name__, question],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        *_, last = ["no reason given", *ended.stderr.strip().splitlines()]
        return {"details": {"undescribed": last[:300]}}
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _main(question: Mapping[str, Any]) -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, question["level"])
    options.add_session_config_entry("session.disable_prepacking", "1")  # nothing runs here
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        write_optimised(options, path)
        providers = ["CPUExecutionProvider"]
        onnxruntime.InferenceSession(
            question["source"], options, providers=providers, disabled_optimizers=question["without"]
        )
        sys.stdout.write(json.dumps(described(path, Path(question["exported"]))))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
