"""Calls of a traced graph that depend on no input: torch computes them once. Knows no graph of the engine."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from engine.exporter.handlers import Refusal
from engine.exporter.torch_internals import OpOverload, tree_leaves, writes

MOST_BYTES = 64 << 20
"""Larger results are left to calls."""


class Varies(Exception):
    """The result of a call is not the same for every call of the program, or is too large to keep."""


class Evaluator:
    """What nodes of a traced graph are in every call: each is computed once.

    `known` has the results, and the weights that nothing changes, for which placeholders stand.
    """

    def __init__(self) -> None:
        self.known: dict[Node, Any] = {}
        self._fixed: dict[Graph, set[Node]] = {}

    def find(self, node: Node) -> Any:
        """A tensor, a number, or several. Raises Varies, and Refusal if torch raises an error."""
        fixed = self._fixed.get(node.graph) or self._fixed.setdefault(node.graph, self._find_fixed(node.graph))
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one not in fixed:
                raise Varies
            inputs = [other for other in one.all_input_nodes if other not in self.known]
            if inputs:
                waiting += [one, *inputs]
            elif one not in self.known:
                self.known[one] = self._compute(one)
        return self.known[node]

    def _find_fixed(self, graph: Graph) -> set[Node]:
        fixed = set(self.known)
        for node in graph.nodes:
            if _is_repeatable(node) and all(one in fixed for one in node.all_input_nodes):
                fixed.add(node)
        return fixed

    def _compute(self, node: Node) -> Any:
        if node.op == "get_attr":
            return getattr(node.graph.owning_module, str(node.target))
        _check_size(node.meta.get("val"))
        call: Any = node.target
        args: Any = map_arg(node.args, self.known.__getitem__)
        kwargs: Any = map_arg(node.kwargs, self.known.__getitem__)
        try:
            with torch.no_grad():
                result = call(*args, **kwargs)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            text = str(error).split("\n")[0]
            raise Refusal(
                f"it depends on no input, and torch cannot compute it: {type(error).__name__}: {text}"
            ) from None
        _check_size(result)
        return result


def _is_repeatable(node: Node) -> bool:
    """Operators of other libraries are not: those that decode a quantised weight would undo its encoding."""
    target = node.target
    if not isinstance(target, OpOverload):
        return node.op == "get_attr" or target is operator.getitem
    return target.namespace == "aten" and not writes(target) and torch.Tag.nondeterministic_seeded not in target.tags


def _check_size(result: Any) -> None:
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if sum(one.numel() * one.element_size() for one in tensors if isinstance(one.numel(), int)) > MOST_BYTES:
        raise Varies
