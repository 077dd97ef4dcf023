"""Results of a graph that are views of one another: who writes to one of them must see it in the others.

A program answers fresh tensors. Where several results share memory, it answers what they are views of, once, and the
views are taken of that. Results that are views of inputs are AOT autograd's business. Knows no program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from engine.errors import UnsupportedOp


class View(NamedTuple):
    """How a result lies in a tensor, in elements; sizes may be symbolic."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any

    def of(self, tensor: torch.Tensor, value: Callable[[Any], int]) -> torch.Tensor:
        """The view of `tensor`; `value` answers what a symbol is."""
        shape, strides = ([_number(size, value) for size in sizes] for sizes in (self.shape, self.strides))
        return tensor.as_strided(shape, strides, _number(self.offset, value))


def taken_out(module: GraphModule) -> dict[int, View]:
    """Let `module` answer whole tensors in place of views that share memory. Returns position of a result -> its view.

    Raises:
        UnsupportedOp: the tensor is not dense in the order of its axes, as a program would answer it.
    """
    output = module.graph.output_node()
    results: Sequence[Any] = output.args[0]  # type: ignore[assignment]  # AOT autograd's graphs answer a tuple
    roots: dict[Any, Node] = {}
    for node in module.graph.nodes:
        if (memory := _memory(node)) is not None:
            roots.setdefault(memory, node)
    shared: dict[Any, dict[Node, None]] = {}
    for result in results:
        if (memory := _memory(result)) is not None:
            shared.setdefault(memory, {})[result] = None
    views: dict[int, View] = {}
    replaced = list(results)
    for position, result in enumerate(results):
        memory = _memory(result)
        root = roots.get(memory)
        if root is None or root.op == "placeholder" or len(shared[memory]) < 2:
            continue
        whole = root.meta["val"]
        if not whole.is_contiguous():
            raise UnsupportedOp([f"{root.name}: several results are views of it, which does not lie row by row"])
        value = result.meta["val"]
        views[position] = View(tuple(value.shape), value.stride(), value.storage_offset())
        replaced[position] = root
    output.args = (tuple(replaced),)
    return views


def _memory(node: Any) -> Any:
    """Equal for nodes that are views of the same tensor; None for what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None  # noqa: SLF001  # its identity


def _number(size: Any, value: Callable[[Any], int]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    known: Mapping[Any, int] = {symbol: value(symbol) for symbol in expression.free_symbols}
    return int(expression.xreplace(known))
