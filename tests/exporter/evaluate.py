"""Evaluate a Graph with the op table's references: the shortest way from an exported graph to numbers."""

import ml_dtypes
import numpy as np
import torch

from engine import tree


def to_numpy(tensor):
    if tensor.dtype is torch.bfloat16:
        return tensor.detach().contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.detach().contiguous().numpy()


def to_torch(array):
    array = np.array(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def evaluate(graph, arrays):
    """The graph's outputs for arrays in the order of its inputs."""
    known = dict(zip(graph.inputs, arrays, strict=True))

    def read(value):
        if value is None:
            return None
        return value.data if value.is_constant else known[value]

    for node in graph.nodes:
        known[node.output] = node.op.reference(*map(read, node.inputs), **node.attributes)
    return [read(value) for value in graph.outputs]


def call(graph, *args, **kwargs):
    """The user's result, in the user's structure, from the exported graph."""
    leaves = torch.utils._pytree.tree_flatten((args, kwargs))[0]
    signature = graph.signature
    used = [(slot, leaf) for slot, leaf in zip(signature.input_slots, leaves, strict=True) if isinstance(slot, int)]
    outputs = evaluate(graph, [to_numpy(leaf) for _slot, leaf in sorted(used, key=lambda pair: pair[0])])
    results = [to_torch(outputs[s]) if isinstance(s, int) else s["constant"] for s in signature.output_slots]
    if signature.rebuild is not None:
        return signature.rebuild(results)
    return tree.unflatten(signature.output_tree, results)
