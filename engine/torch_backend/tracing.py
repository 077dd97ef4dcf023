"""Traces what torch runs of a model, call by call. Knows no program."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node

from engine.exporter.sources import from_trace, module_of
from engine.exporter.weights import to_numpy
from engine.runtime.trace import Keep, Kind, NodeTrace, TensorStatistics, Trace, ValueTrace, summarise
from engine.torch_backend.failures import explain_failure


def trace_calls(module: GraphModule, inputs: Iterable[Any], keep: Keep) -> Trace:
    """Run `module`, a graph of ATen calls, once and record each call."""
    recorder = _Recorder(module, keep)
    recorder.run(*inputs)
    return Trace(tuple(recorder.nodes))


def count_calls(module: GraphModule) -> int:
    """Number of calls that `trace_calls` records."""
    return len(list_calls(module))


def list_calls(module: GraphModule) -> list[Node]:
    """The calls that `trace_calls` records, in order."""
    return [node for node in module.graph.nodes if _is_recorded(node)]


def _is_recorded(node: Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


class _Recorder(Interpreter):
    """Collects a NodeTrace for each call."""

    def __init__(self, module: GraphModule, keep: Keep) -> None:
        super().__init__(module)
        self.extra_traceback = False  # it changes the texts of errors
        self.keep = keep
        self.calls = {call: number for number, call in enumerate(list_calls(module))}
        self.nodes: list[NodeTrace] = []

    def run_node(self, n: Node) -> Any:
        """Runs one node, and records it if it is a call and not the choice of one of several results."""
        begin = time.perf_counter()
        try:
            result = super().run_node(n)
        except Exception as error:
            raise explain_failure(error, n) from error
        seconds = time.perf_counter() - begin
        if not _is_recorded(n):
            return result
        index = self.calls[n]
        is_kept = index in self.keep.positions
        outputs = result if isinstance(result, tuple | list) else [result]
        made = [one for one in outputs if isinstance(one, torch.Tensor)]
        named = is_kept or self.keep.matches((n.name, module_of(n)))
        read = [(other, self.env[other]) for other in n.all_input_nodes]
        calls = [_maker(other) for other in n.all_input_nodes]
        self.nodes.append(
            NodeTrace(
                index,
                str(n.target),
                {},
                (),
                tuple(_trace(other, one, keep=is_kept) for other, one in read if isinstance(one, torch.Tensor)),
                tuple(_trace(n, one, keep=named, number=k if len(made) > 1 else None) for k, one in enumerate(made)),
                tuple(dict.fromkeys(self.calls[one] for one in calls if one in self.calls)),
                tuple(dict.fromkeys(self.calls[one] for one in _readers(n) if one in self.calls)),
                str(made[0].device.type) if made else "cpu",
                seconds,
                module_of(n),
                from_trace(n.meta.get("stack_trace")),
            )
        )
        return result


def _maker(node: Node) -> Node:
    """The call whose result `node` is, or is one of."""
    while node.target is operator.getitem:
        (node,) = node.all_input_nodes
    return node


def _readers(node: Node) -> Iterator[Node]:
    for user in node.users:
        if user.target is operator.getitem:
            yield from _readers(user)
        else:
            yield user


def trace_input(name: str, tensor: torch.Tensor) -> ValueTrace:
    """An input of a program."""
    statistics = _summarise(tensor)
    return ValueTrace(name, "input", statistics.dtype, statistics.shape, name, _summarise=lambda: statistics)


def _trace(node: Node, tensor: torch.Tensor, *, keep: bool, number: int | None = None) -> ValueTrace:
    kind: Kind = "input" if node.op == "placeholder" else "weight" if node.op == "get_attr" else "computed"
    named = trace_input(node.name if number is None else f"{node.name}[{number}]", tensor)
    module, source = module_of(node), from_trace(node.meta.get("stack_trace"))
    array = _copy(tensor) if keep else None
    return replace(named, kind=kind, exported=node.name, module=module, source=source, array=array)


def _summarise(tensor: torch.Tensor) -> TensorStatistics:
    """Statistics of a tensor; of one that the engine could not hold, such as a complex one, no minimum and the like."""
    try:
        return summarise(to_numpy(tensor))
    except (KeyError, TypeError):
        wide = _widen(tensor)
        nans, infinities = int(torch.isnan(wide).sum()), int(torch.isinf(wide).sum())
        dtype = str(tensor.dtype).removeprefix("torch.")
        return TensorStatistics(dtype, tuple(tensor.shape), None, None, None, None, nans, infinities)


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of 8-bit floats, which NumPy and many ops of torch do not take, as float32; every other one as it is."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def _copy(tensor: torch.Tensor) -> np.ndarray:
    return to_numpy(_widen(tensor)).copy()
