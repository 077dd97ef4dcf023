"""From Dynamo's graph to a functional graph of ATen calls, by AOT autograd. Owns what is asked of torch, and refused.

AOT autograd makes writes to inputs and buffers, views of inputs among the results and tensors that share memory right
around the graph: what it hands to the compiler has no writes, and what the compiler returns may be fresh memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, NoReturn

import torch
from torch.export import default_decompositions
from torch.fx import GraphModule, Node

from engine.errors import ConfigError, ShapeError
from engine.exporter import aten as _handlers  # noqa: F401  # imported for what it registers
from engine.exporter.decompositions import CHOSEN
from engine.exporter.handlers import HANDLERS, kept_whole, overload
from engine.exporter.sources import from_trace
from engine.exporter.torch_internals import OpOverload, compile_functional_graphs, decomposition, keep_whole
from engine.targets.base import Device

Boxed = Callable[[list[Any]], list[Any]]
Finish = Callable[[GraphModule, Sequence[Any]], Boxed]

_GRADIENTS = (
    "the graph requires gradients, and this backend is for inference: call the model under torch.inference_mode() or "
    "torch.no_grad(), and have nothing in it enable them again"
)


def make_functional(module: GraphModule, inputs: Sequence[Any], finish: Finish, device: Device) -> Callable[..., Any]:
    """The function that Dynamo calls in place of `module`; AOT autograd makes a functional graph for its inner part.

    `inputs` are those of the first call. `finish` compiles the functional graph, whose placeholders have
    ``meta["val"]``, for fake inputs. Raises ConfigError if the graph would be differentiated or the model is in
    training mode, and ShapeError if an input is no dense tensor on the cpu or on `device`, the target's.
    """
    _check(module, inputs, device)
    differentiates = _differentiates(module)
    rules = {op: rule for op, rule in _rules().items() if not (differentiates and op is _ATTENTION_ON_CPU)}
    compiler = compile_functional_graphs(fw_compiler=_refuse_gradients, inference_compiler=finish, decompositions=rules)
    # The override holds for all threads. Dynamo compiles one graph at a time, so no other compilation meets it.
    with nullcontext() if differentiates else _for_values_alone():
        call: Callable[..., Any] = compiler(module, inputs)
    return call


@contextmanager
def _for_values_alone() -> Iterator[None]:
    """A block in which tracing records no derivatives, and keeps calls whole that have a handler."""
    with torch.no_grad(), keep_whole(kept_whole()):
        yield


_ATTENTION_ON_CPU = overload("_scaled_dot_product_flash_attention_for_cpu")
"""Torch's decomposition of it leaves out a result that its derivative reads."""
_TRANSFORMS = ("_grad_increment_nesting", "_jvp_increment_nesting")
"""What Dynamo's graph calls where a derivative of `torch.func` begins."""


def _differentiates(module: GraphModule) -> bool:
    """True if the graph computes derivatives by itself: of a call that is kept whole torch takes zero for them."""
    parts = (part for part in module.modules() if isinstance(part, GraphModule))
    return any(getattr(node.target, "__name__", "") in _TRANSFORMS for part in parts for node in part.graph.nodes)


def rewrite_in_aten(module: GraphModule) -> None:
    """Changes `module` to have ATen calls alone: torch casts a number that becomes a tensor by a call of ``prims``."""
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        tensor, dtype = node.args
        node.target, node.args, node.kwargs = overload("_to_copy"), (tensor,), {"dtype": dtype}


def _check(module: GraphModule, inputs: Sequence[Any], device: Device) -> None:
    tensors = [i for i in inputs if isinstance(i, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ConfigError(_GRADIENTS)
    for tensor in tensors:
        if not device.admits(tensor) or tensor.layout is not torch.strided:
            place = "the cpu" if device.name == "cpu" else f"the cpu or {device.name}"
            raise ShapeError(f"an input is {tensor.layout} on {tensor.device}: expected dense tensors on {place}")
    kinds = filter(torch.amp.is_autocast_available, {"cpu", *(t.device.type for t in tensors)})
    if any(map(torch.is_autocast_enabled, kinds)):
        raise ConfigError("torch.autocast is on: call the model outside of it, and cast the model itself")
    if call := next(_in_training(module), None):
        line = from_trace(call.stack_trace)
        what = getattr(call.target, "__name__", call.target)
        where = f" at {line}" if line else ""
        raise ConfigError(f"the model is in training mode ({what}{where}): call model.eval()")


def _refuse_gradients(_module: GraphModule, _fakes: Sequence[Any]) -> NoReturn:
    """Called for a graph that enables gradients itself: torch cannot differentiate the calls that are kept whole."""
    raise ConfigError(_GRADIENTS)


def _in_training(module: GraphModule) -> Iterator[Node]:
    """Calls of torch's functions that are told to train."""
    for function in (torch.nn.functional.dropout, torch.nn.functional.batch_norm):
        for node in module.graph.find_nodes(op="call_function", target=function):
            bound = inspect.signature(function).bind(*node.args, **node.kwargs)
            bound.apply_defaults()
            # A batch norm without running statistics takes the batch's at rest, too.
            if bound.arguments["training"] is True and bound.arguments.get("running_mean", True) is not None:
                yield node


@cache
def _rules() -> dict[OpOverload, Any]:
    """Torch's decompositions of calls that have no handler."""
    rules = {op: rule for op, rule in default_decompositions().items() if op not in HANDLERS}
    return rules | {op: decomposition(op) for op in CHOSEN}
