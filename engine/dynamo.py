"""``torch.compile(model, backend="engine")``: the front that torch finds by entry point. Imports torch when called.

with torch.inference_mode():
    y = torch.compile(model, backend="engine", options={"threads": 2})(x)
    for report in engine.dynamo.reports():
        print(report)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from engine import targets
from engine.config import Config
from engine.errors import ConfigError
from engine.suggest import unknown

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from engine.runtime.report import Report
    from engine.torch_backend.compiled_graph import CompiledGraph

_GRAPHS: list[weakref.ref[CompiledGraph]] = []


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """What torch.compile calls for each graph that it captured.

    Args:
        module: the graph.
        inputs: what it is called with first.
        options: fields of `Config` by name; `fallback` is ``"torch"`` unless they say None, and `target` is
            ``"triton"`` by default if an input is on a GPU.
        mode: None; torch's modes have no meaning here.

    Raises:
        ConfigError: unknown options, a graph that requires gradients, a model in training mode, a target whose programs
            this machine cannot run.
        ShapeError: an input is not a dense tensor on the cpu or on the device of the target.
    """
    if mode is not None:
        raise ConfigError(f"mode: this backend has none, got {mode!r}; it is configured by options={{...}}")
    config = config_of(options or {}, inputs)
    from engine.torch_backend import compile_graph

    compiled, call = compile_graph(module, inputs, config)
    _GRAPHS[:] = [graph for graph in _GRAPHS if graph() is not None]
    _GRAPHS.append(weakref.ref(compiled))
    return call


backend.reset = _GRAPHS.clear  # type: ignore[attr-defined]  # torch.compiler.reset calls it


def config_of(options: Mapping[str, Any], inputs: Sequence[Any]) -> Config:
    """The Config whose fields are `options`, with a fallback to torch and the target that suits `inputs`.

    ConfigError for a name that it does not have, or for what is no mapping.

    Graphs of torch.compile have no states: the buffers that a model writes to are inputs.
    """
    if not isinstance(options, Mapping):
        raise ConfigError(f"options: expected a dict of fields of Config, such as {{'threads': 2}}, got {options!r}")
    if "states" in options:
        raise ConfigError(
            "option 'states': torch.compile makes an input of each buffer that a model writes to, so there is no state "
            "to store; leave the option out"
        )
    known = [field.name for field in fields(Config) if field.name != "states"]
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, known))
    return targets.resolve(Config(**{"target": targets.choose(inputs), "fallback": "torch", **options}))


def reports() -> list[Report]:
    """The report of every program that compiled models hold now, in the order in which torch captured their graphs."""
    return [report for graph in _GRAPHS if (found := graph()) is not None for report in found.reports()]
