"""ONNX Runtime's graph transformers by name, and what they made of a graph. Imports onnx where a graph is read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def described(path: Path) -> dict[str, Any]:
    """Facts of the model in the file at `path`, without its weights: `nodes`, `run_digest`, and `made`, how often each
    operator occurs that ONNX does not have, so that fusions made it.

    The digest knows operators, attributes, small constants and how nodes hang together, and no names, which a fusion
    that did not fire may still have numbered differently.
    """
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers)) if name else -1

    found: list[Any] = [[number(entry.name) for entry in graph.input]]
    found += [[number(one.name), *_constant(one)] for one in sorted(graph.initializer, key=lambda one: one.name)]
    for node in graph.node:
        attributes = sorted(attribute.SerializeToString(deterministic=True).hex() for attribute in node.attribute)
        ends = [[number(name) for name in names] for names in (node.input, node.output)]
        found.append([node.domain, node.op_type, attributes, *ends])
    own = Counter(node.op_type for node in graph.node if node.domain not in ("", "ai.onnx"))
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
    return {"nodes": len(graph.node), "run_digest": digest, "made": dict(sorted(own.items()))}


def _constant(one: Any) -> list[Any]:
    small = one.raw_data.hex() if len(one.raw_data) <= _SMALL_BYTES and not one.external_data else ""
    return [list(one.dims), one.data_type, small]


def optimise(source: Path, family: str, target: Path) -> Mapping[str, int]:
    """Run ONNX Runtime's offline optimiser for transformers of a `family` (``bert``, ``gpt2``, ...) on a model file.

    Returns how often it made each operator. Heads and width are found in the graph.
    """
    from onnxruntime.transformers import optimizer

    made = optimizer.optimize_model(str(source), model_type=family, num_heads=0, hidden_size=0, opt_level=0)
    made.save_model_to_file(str(target), use_external_data_format=True)
    found: Mapping[str, int] = made.get_fused_operator_statistics()
    return found
