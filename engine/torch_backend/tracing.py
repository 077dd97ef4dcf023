"""Traces what torch runs of a model, call by call. Knows no program."""

from __future__ import annotations

import operator
import time
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node

from engine.exporter.sources import from_trace, module_of
from engine.exporter.weights import to_numpy
from engine.runtime.report import NodeTrace, TensorStatistics
from engine.runtime.specialised import summarise
from engine.torch_backend.failures import explain_failure


def trace_calls(module: GraphModule, inputs: Iterable[Any], keep: Collection[int]) -> list[NodeTrace]:
    """Run `module`, a graph of ATen calls, once and record each call; arrays are kept at the positions `keep`."""
    recorder = _Recorder(module, keep)
    recorder.run(*inputs)
    return recorder.nodes


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

    def __init__(self, module: GraphModule, kept: Collection[int]) -> None:
        super().__init__(module)
        self.extra_traceback = False  # it changes the texts of errors
        self.kept = kept
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
        inputs = [self.env[other] for other in n.all_input_nodes]
        outputs = result if isinstance(result, tuple | list) else [result]
        read, made = ([t for t in part if isinstance(t, torch.Tensor)] for part in (inputs, outputs))
        keep = len(self.nodes) in self.kept
        self.nodes.append(
            NodeTrace(
                len(self.nodes),
                str(n.target),
                n.name,
                from_trace(n.meta.get("stack_trace")),
                seconds,
                tuple(map(_summarise, read)),
                tuple(map(_summarise, made)),
                tuple(map(_copy, read)) if keep else None,
                tuple(map(_copy, made)) if keep else None,
                module_of(n),
            )
        )
        return result


def _summarise(tensor: torch.Tensor) -> TensorStatistics:
    """Statistics of a tensor; of one that the engine could not hold, such as a complex one, no minimum and the like."""
    try:
        return summarise(to_numpy(tensor))
    except (KeyError, TypeError):
        wide = _widen(tensor)
        nans, infinities = int(torch.isnan(wide).sum()), int(torch.isinf(wide).sum())
        dtype = str(tensor.dtype).removeprefix("torch.")
        return TensorStatistics(dtype, tuple(tensor.shape), None, None, None, nans, infinities)


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of 8-bit floats, which NumPy and many ops of torch do not take, as float32; every other one as it is."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def _copy(tensor: torch.Tensor) -> np.ndarray:
    return to_numpy(_widen(tensor)).copy()
