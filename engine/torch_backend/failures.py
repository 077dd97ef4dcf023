"""Errors of calls that torch runs, as those of the engine: with the call, its source line and its module."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from engine.errors import EngineError, ExecutionError
from engine.exporter.sources import from_trace, module_of
from engine.exporter.torch_internals import OpOverload

_ASSIGNED = re.compile(r"\s*(\w+)\b.*? = ")
_GENERATED = "<eval_with_key"  # how the names of files begin that hold the code of a GraphModule


def name_failures(module: GraphModule) -> Callable[..., Sequence[Any]]:
    """A function that runs `module`. Where a call of it fails, it raises an ExecutionError that names the call."""
    nodes = {node.name: node for node in module.graph.nodes}

    def run(*inputs: Any) -> Sequence[Any]:
        try:
            results: Sequence[Any] = module.forward(*inputs)
        except EngineError:
            raise
        except Exception as error:
            raise explain_failure(error, _find_failed(error, nodes)) from error
        return results

    return run


def explain_failure(error: Exception, node: Node | None) -> ExecutionError:
    """The first line of `error`, which `node` raised, with its call and source line."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    text = text.partition("  (Could this error message be improved?")[0]
    if node is None:
        return ExecutionError(f"a call of torch: {text}")
    source, module = from_trace(node.meta.get("stack_trace")), module_of(node)
    where = (f" at {source}" if source else "") + (f" in {module}" if module else "")
    wrapped = (argument for argument in node.args if isinstance(argument, OpOverload))
    name = next(wrapped, node.target)  # with_effects and auto_functionalized wrap another call
    return ExecutionError(f"{name}{where}: {text}")


def _find_failed(error: Exception, nodes: dict[str, Node]) -> Node | None:
    """The node whose line of the generated code failed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(_GENERATED) and frame.lineno is not None:
            found = _ASSIGNED.match(linecache.getline(frame.filename, frame.lineno))
            if found and found[1] in nodes:
                return nodes[found[1]]
    return None
