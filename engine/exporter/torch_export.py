"""Makes a functional ExportedProgram of a model: checks, torch.export, decompositions. Knows no Graph."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound
from torch.nn.parameter import is_lazy

from engine import logs
from engine.errors import ConfigError, EngineError, ShapeError
from engine.exporter.copies import convert_copied
from engine.exporter.decompositions import chosen, composite, find_default_rules
from engine.exporter.dynamic import list_narrowed, resolve_dynamic_shapes
from engine.exporter.handlers import DEVICES, is_known, runs_for_effect
from engine.exporter.quiet import quiet
from engine.exporter.signature import list_user_inputs
from engine.exporter.small_sizes import find_least_sizes
from engine.exporter.sources import from_error
from engine.exporter.symbols import Range, Ranges
from engine.exporter.torch_internals import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    OpOverload,
    guards_of,
    is_wrapper,
    keep_unused,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
    writes,
)
from engine.exporter.weights import watch_weights, with_parts
from engine.memory import NO_MEMORY_MODE, are_tensors_fake, fault_of_memory
from engine.torch_ops import capturing

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


@dataclass(frozen=True)
class TorchExport:
    """The result of torch.export: a functional program of ATen calls.

    Attributes:
        name: of the model's class.
        shapes: the dynamic shapes by name of the input; None: all sizes are fixed.
        restrictions: a text for each size of which the program takes fewer values than `shapes` allow.
        seconds: spent here.
        ranges: the values of torch's symbols for which the program is right.
        find_changed: names the weights that have changed since.
        guards: the conditions on the inputs for which torch captured the model, as torch writes them, without those
            that decompositions add: these keep to sizes, such as 1 and more, that their results do not need.
    """

    program: ExportedProgram
    name: str
    shapes: Any
    restrictions: tuple[str, ...]
    seconds: float
    ranges: Ranges
    find_changed: Callable[[], tuple[str, ...]]
    guards: tuple[str, ...] = ()


def run_torch_export(model: Any, args: Args, kwargs: Kwargs, dynamic_shapes: Any = None) -> TorchExport:
    """The model as a functional program of ATen calls.

    Raises ConfigError if `model` is no module or exported program, is in training mode, has parameters on an unknown
    device or does not fit `dynamic_shapes`; ShapeError if an input is no dense tensor on the model's device;
    EngineError, with the reason and the source line, if torch.export cannot capture it.
    """
    begin = time.perf_counter()
    if torch.is_autocast_enabled("cpu"):
        raise ConfigError("torch.autocast is on: compile outside of it, and cast the model itself")
    if are_tensors_fake():
        raise ConfigError(NO_MEMORY_MODE)
    if isinstance(model, ExportedProgram):
        _check_tensors((model.state_dict | model.constants).items(), ConfigError)
        if dynamic_shapes is not None:
            raise ConfigError("dynamic_shapes: the model is exported already; its dynamic shapes cannot be changed")
        program, shapes = model, None
        captured = _decomposed(program)
        least: dict[Any, int] = {}  # there is no model to compare the program with
    else:
        check_module(model)
        _check_tensors(_inputs_by_name(args, kwargs), ShapeError)
        shapes = resolve_dynamic_shapes(model, args, kwargs, dynamic_shapes)
        args, kwargs = _apart(model, args, kwargs)
        with _errors_as_one_sentence(), capturing():
            program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
        _check_tensors(program.constants.items(), ConfigError)
        captured = _decomposed(program)
        least = find_least_sizes(model, captured, args, kwargs) if shapes else {}
    limits = captured.range_constraints
    raised = {one: Range(value, limits[one].upper if one in limits else sympy.oo) for one, value in least.items()}
    ranges = {**limits, **raised}
    logs.EXPORT.info("%s: %d calls", type(model).__name__, len(captured.graph.nodes))
    return TorchExport(
        captured,
        type(model).__name__,
        shapes,
        tuple(list_narrowed(shapes, list_user_inputs(captured), ranges, least)),
        time.perf_counter() - begin,
        ranges,
        watch_weights(model, frozenset(captured.graph_signature.buffers_to_mutate.values())),
        tuple(guards_of(program)),
    )


def check_module(model: Any) -> None:
    """ConfigError unless `model` is a module in evaluation mode with real parameters on a known device."""
    if not isinstance(model, torch.nn.Module):
        found = f"the class {model.__name__}; make an object of it" if isinstance(model, type) else type(model).__name__
        raise ConfigError(f"model: expected an nn.Module, an ExportedProgram or a GraphModule, got {found}")
    # .eval() does not change a traced GraphModule. Handlers refuse dropout in training mode.
    if model.training and not isinstance(model, GraphModule):
        raise ConfigError(f"model: {type(model).__name__} is in training mode; call model.eval() first")
    _check_tensors((*model.named_parameters(), *model.named_buffers()), ConfigError)


def _check_tensors(tensors: Iterable[tuple[str, Any]], error: type[EngineError]) -> None:
    for name, tensor in with_parts(tensors):
        if isinstance(tensor, np.ndarray):
            raise error(f"{name}: expected a torch tensor, got a NumPy array; convert it by torch.from_numpy")
        if not isinstance(tensor, torch.Tensor):
            continue
        if is_lazy(tensor):
            raise error(f"{name}: a lazy layer's tensor without a shape; call the model once before compiling it")
        if tensor.device.type not in DEVICES:
            raise error(f"{name}: expected a tensor on {' or '.join(DEVICES)}, got one on {tensor.device}")
        if tensor.layout is not torch.strided or isinstance(tensor, FakeTensor):
            kind = "FakeTensor" if isinstance(tensor, FakeTensor) else str(tensor.layout)
            raise error(f"{name}: expected a dense tensor with data, got {kind}")
        if fault := "a nested tensor" if tensor.is_nested else fault_of_memory(tensor):
            raise error(f"{name}: expected a dense tensor with data, got {fault}")


def _inputs_by_name(args: Args, kwargs: Kwargs) -> Iterator[tuple[str, Any]]:
    for position, argument in enumerate(args):
        yield from ((f"input {position}", leaf) for leaf in tree_leaves(argument))
    for name, argument in kwargs.items():
        yield from ((f"input {name}", leaf) for leaf in tree_leaves(argument))


def _apart(model: torch.nn.Module, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The inputs; tensors that share memory with another input or a weight are copied.

    torch.export makes only one input for two arguments that are the same tensor: the program would ignore the other.
    """
    weights = with_parts((*model.named_parameters(), *model.named_buffers()))
    seen = {t.untyped_storage().data_ptr() for _name, t in weights}
    leaves, spec = tree_flatten((args, kwargs))
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            address = leaf.untyped_storage().data_ptr()
            if address in seen and address:
                leaves[position] = leaf.detach().clone()
            seen.add(address)
    args, kwargs = tree_unflatten(leaves, spec)
    return args, kwargs


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program without writes, in which torch's decompositions replace calls without a handler. Tensors that consist
    of others, such as quantised weights, are replaced by these, and calls in a `torch.vmap` by calls for all slices.
    """
    with _errors_as_one_sentence():
        program = convert_copied(program)
    table: dict[OpOverload, Any] = {}
    for _ in range(_MAX_ROUNDS):
        unknown = {target for target in _targets(program) if not is_known(target)} - table.keys()
        rules = (find_default_rules(unknown) | chosen(unknown)) if unknown else {}
        if not (rules or composite(unknown) or any(map(writes, _targets(program))) or _must_be_traced_again(program)):
            break
        table |= rules
        with _errors_as_one_sentence(), keep_unused(filter(runs_for_effect, _targets(program))):
            program = program.run_decompositions(table)
    return program


def _must_be_traced_again(program: ExportedProgram) -> bool:
    """True if tracing replaces tensors that consist of others, or a torch.vmap, in which calls are for slices."""
    modules = (getattr(n.target, "__module__", None) for n in program.graph.nodes if n.op == "call_function")
    return any(map(is_wrapper, (*program.state_dict.values(), *program.constants.values()))) or _VMAP in modules


_VMAP = "torch._functorch.predispatch"
"""Module of the functions by which torch.export records a `torch.vmap`."""


_MAX_ROUNDS = 4  # a decomposition may add calls that must be decomposed; in torch the depth is at most two


def _targets(program: ExportedProgram) -> Iterator[OpOverload]:
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            yield from (n.target for n in module.graph.nodes if isinstance(n.target, OpOverload))


@contextlib.contextmanager
def _errors_as_one_sentence() -> Iterator[None]:
    """A block that runs torch without messages and gradients; its errors become an EngineError of one sentence."""
    try:
        with quiet(), torch.no_grad():
            yield
    except Exception as error:
        raise _sentence(error) from error


_CACHE = re.compile(r"<class 'transformers\.[\w.]*?\w*Cache'>")
_HINT_OF_CACHE = (
    "a program takes and returns no cache of transformers: set model.config.use_cache = False, and give no "
    "past_key_values; to generate text with a cache, see engine.compile_decoder in docs/guide.md"
)
_DEPENDS_ON_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
)
_HINT_OF_VALUES = (
    "a branch, a shape or a number in the model depends on the values of tensors; a program has fixed ones"
)


def _sentence(error: Exception) -> EngineError:
    """The first line of an error of torch, the first item of a list that follows, a hint, and the user's line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    items = [line for line in lines[1:2] if line.startswith("- ")]
    text = ": ".join([f"torch.export: {type(error).__name__}", *lines[:1], *(one.removeprefix("- ") for one in items)])
    if isinstance(error, _DEPENDS_ON_VALUES):
        text += f"; {_HINT_OF_VALUES}"
    elif _CACHE.search(str(error)):
        text += f"; {_HINT_OF_CACHE}"
    where = from_error(error)
    return EngineError(text + (f" ({where})" if where else ""))
