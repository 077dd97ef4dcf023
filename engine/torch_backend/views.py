"""Results of a graph that are views: a user who writes to one of them must see the change in what it is a view of.

Where results share memory, a program returns the tensor that they are views of, once, and they are made of it. Views of
an input are made of the input, and no program computes them. Knows no program.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from engine.exporter.torch_internals import storage_key
from engine.torch_backend.layouts import Value, ensure_strides, evaluate, evaluate_all, strides_of


class ResultView(NamedTuple):
    """How a result lies in a tensor, in elements; sizes may be symbolic.

    `whole` has the strides of the tensor (None: row by row), `argument` its position if it is an input, else None.
    """

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    whole: tuple[Any, ...] | None
    argument: int | None

    def of(self, tensor: torch.Tensor, value: Value) -> torch.Tensor:
        """The view of `tensor`, for sizes whose symbols have the numbers `value`."""
        offset = evaluate(self.offset, value) + int(tensor.storage_offset())
        return tensor.as_strided(evaluate_all(self.shape, value), evaluate_all(self.strides, value), offset)

    def restore_strides(self, tensor: torch.Tensor, value: Value) -> torch.Tensor:
        """The result of a program with the strides that torch would have given it; itself if it has them."""
        return tensor if self.whole is None else ensure_strides(tensor, evaluate_all(self.whole, value))


def make_views(results: list[Any], views: Mapping[int, ResultView], args: Sequence[Any], value: Value) -> list[Any]:
    """Replaces `results` of the graph after `extract_views` by their `views`, which share memory, and returns them."""
    known: dict[int, torch.Tensor] = {}
    whole = {position: results[position] for position in views}
    for position, view in views.items():
        if view.argument is not None:
            results[position] = view.of(args[view.argument], value)
            continue
        tensor = whole[position]
        if id(tensor) not in known:
            known[id(tensor)] = view.restore_strides(tensor, value)
        results[position] = view.of(known[id(tensor)], value)
    return results


def extract_views(module: GraphModule) -> dict[int, ResultView]:
    """Changes `module` to return whole tensors in place of views that share memory, and None for views of inputs.
    Returns position of a result -> its view.
    """
    output = module.graph.output_node()
    results: Sequence[Any] = output.args[0]  # type: ignore[assignment]  # AOT autograd's graphs answer a tuple
    inputs = {node: position for position, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    roots = {result: root(result) for result in results if memory(result) is not None}
    shared: dict[Node, set[Node]] = {}
    for result, base in roots.items():
        shared.setdefault(base, set()).add(result)
    views: dict[int, ResultView] = {}
    replaced = list(results)
    for position, result in enumerate(results):
        if result not in roots:
            continue
        base = roots[result]
        value, whole = result.meta["val"], base.meta["val"]
        reads_alike = (value.dtype, value.is_conj(), value.is_neg()) == (whole.dtype, whole.is_conj(), whole.is_neg())
        if (base not in inputs and len(shared[base]) < 2) or not reads_alike:
            continue
        offset = value.storage_offset() - whole.storage_offset()
        views[position] = ResultView(tuple(value.shape), value.stride(), offset, strides_of(whole), inputs.get(base))
        replaced[position] = None if base in inputs else base
    output.args = (tuple(replaced),)
    return views


def root(node: Node) -> Node:
    """The node whose memory `node` is a view of, through any number of views; itself if it is no view."""
    while (base := find_base(node)) is not None:
        node = base
    return node


def find_base(node: Node) -> Node | None:
    """The input of `node` that `node` is a view of; None if it has memory of its own."""
    own, read = memory(node), node.all_input_nodes
    if node.target is operator.getitem:  # one of several results: who makes them has no memory, but reads some
        read = read[0].all_input_nodes
    return next((other for other in read if own is not None and memory(other) == own), None)


def memory(node: Any) -> Any:
    """Equal for nodes that are views of the same tensor; None for what is not a tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return storage_key(value)
