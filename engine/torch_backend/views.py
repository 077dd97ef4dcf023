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

Value = Callable[[Any], int]
"""What a symbol is."""


class View(NamedTuple):
    """How a result lies in a tensor, in elements; sizes may be symbolic.

    Attributes:
        whole: the strides of the tensor itself; None: row by row, as a program answers it.
    """

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    whole: tuple[Any, ...] | None

    def of(self, tensor: torch.Tensor, value: Value) -> torch.Tensor:
        """The view of `tensor`."""
        return tensor.as_strided(
            _numbers(self.shape, value), _numbers(self.strides, value), _number(self.offset, value)
        )

    def laid(self, tensor: torch.Tensor, value: Value) -> torch.Tensor:
        """What a program answered, as torch would have laid it out; itself where that is the same."""
        if self.whole is None:
            return tensor
        return tensor.new_empty_strided(tensor.shape, _numbers(self.whole, value)).copy_(tensor)


def viewed(results: list[Any], views: Mapping[int, View], value: Value) -> list[Any]:
    """`results`, those at the positions of `views` being such views; they share memory where they are of one tensor."""
    laid: dict[int, torch.Tensor] = {}
    whole = {position: results[position] for position in views}
    for position, view in views.items():
        tensor = whole[position]
        if id(tensor) not in laid:
            laid[id(tensor)] = view.laid(tensor, value)
        results[position] = view.of(laid[id(tensor)], value)
    return results


def taken_out(module: GraphModule) -> dict[int, View]:
    """Let `module` answer whole tensors in place of views that share memory. Returns position of a result -> its view.

    Raises:
        UnsupportedOp: such a tensor has room between its elements.
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
        if not torch.ops.aten.is_non_overlapping_and_dense.default(whole):
            raise UnsupportedOp([f"{root.name}: several results are views of it, and it has room between its elements"])
        value, strides = result.meta["val"], None if whole.is_contiguous() else whole.stride()
        views[position] = View(tuple(value.shape), value.stride(), value.storage_offset(), strides)
        replaced[position] = root
    output.args = (tuple(replaced),)
    return views


def _memory(node: Any) -> Any:
    """Equal for nodes that are views of the same tensor; None for what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None  # noqa: SLF001  # its identity


def _numbers(sizes: Sequence[Any], value: Value) -> list[int]:
    return [_number(size, value) for size in sizes]


def _number(size: Any, value: Value) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    known: Mapping[Any, int] = {symbol: value(symbol) for symbol in expression.free_symbols}
    return int(expression.xreplace(known))
