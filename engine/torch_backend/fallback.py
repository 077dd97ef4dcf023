"""``Config(fallback="torch")``: a compiled model of which the engine runs what it can, and torch the rest.

Knows a model's signature; `segments` decides what runs where.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch.export.graph_signature import OutputKind

from engine import exporter, targets, tree
from engine.config import Config
from engine.errors import ConfigError, ProgramError, UnsupportedOp
from engine.exporter import TorchExport
from engine.exporter.signature import list_held, list_user_inputs
from engine.exporter.symbols import Symbols
from engine.exporter.weights import identity
from engine.graph import Graph, specialise
from engine.memory import as_array, as_tensor
from engine.runtime.boundary import Boundary
from engine.runtime.limits import describe_restrictions
from engine.runtime.model import CompiledModel
from engine.runtime.report import Profile, Report
from engine.runtime.requests import check_profile
from engine.runtime.state import State
from engine.runtime.trace import Keep, Trace
from engine.targets.host import HOST
from engine.torch_backend.layouts import copy_with_strides
from engine.torch_backend.segments import Segmented


class SizedSegments(NamedTuple):
    """Segments for known sizes, and the checks of arguments of these sizes."""

    boundary: Boundary
    segments: Segmented


class FallbackProgram(CompiledModel[SizedSegments]):
    """A compiled model, part of which torch runs. Immutable; may be called from any number of threads at once.

    Where sizes differ from call to call, segments are compiled for each combination of them at its first call, and the
    latest `Config.plans` are kept. `restrictions` are texts of the sizes that the program does not take, although
    dynamic_shapes allow them; `unchecked` is that of `engine.sizes.Scope`.

    Making one raises UnsupportedOp if an input has an element type that the engine does not know, or the model writes
    to what it holds; ConfigError and UnsupportedByTarget as `Segmented`.
    """

    _HOW_TO_KEEP = "compile the model again"

    def __init__(self, model: TorchExport, config: Config) -> None:
        interface, self._symbols = _describe(model)
        self.unchecked = interface.scope.unchecked
        self.restrictions = (*describe_restrictions(interface.scope), *model.restrictions)
        # One thread at a time makes segments: those of each combination of sizes have packed weights of their own.
        super().__init__(interface, config, serial=True, find_changed=model.find_changed)
        self._export_seconds = model.seconds
        self._module = model.program.graph_module
        held = list_held(model.program).items()
        self._weights = {node: one.tensor for node, one in held if isinstance(one.tensor, torch.Tensor)}
        if not interface.is_fixed:  # other sizes will want the weights of today
            copies = {identity(t): copy_with_strides(t) for t in self._weights.values()}
            self._weights = {node: copies[identity(t)] for node, t in self._weights.items()}
        self._example = self._at_example()
        if interface.is_fixed:
            self._weights = {}  # the segments have theirs; the model's memory is not referred to any longer

    def _make(self, sizes: tuple[int, ...]) -> SizedSegments:
        fixed = specialise(self._interface, dict(zip(self._interface.scope.symbols, sizes, strict=True)))
        known = self._symbols.find_numbers(sizes)
        segments = Segmented(self._module, self._weights, known, self.config, self._interface.name, own=not sizes)
        return SizedSegments(Boundary(fixed, device=targets.get(self.config.target).device), segments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        chosen = self._for(args, kwargs)
        inputs = chosen.boundary.flatten_arguments(args, kwargs)
        tensors = [as_tensor(value) for value in inputs]
        arrays = bool(inputs) and all(isinstance(value, np.ndarray) for value in inputs)
        results = _copy_shared(chosen.segments(*tensors), [*tensors, *chosen.segments.held.values()])
        if arrays:
            results = [as_array(r) if isinstance(r, torch.Tensor) else r for r in results]
        signature = self._interface.signature
        return signature.rebuild(results) if signature.rebuild else tree.unflatten(signature.output_tree, results)

    def new_state(self) -> State:
        return State(self._interface, HOST)

    def __repr__(self) -> str:
        count = sum(len(part.calls) for part in self._example.segments.parts if part.module is not None)
        return f"<FallbackProgram {self._interface.name}: {count} call(s) on torch>"

    # --- identity ------------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        return self._example.segments.digest

    @property
    def run_digest(self) -> str:
        """As `CompiledModel.run_digest`; of torch's part, the calls and the number of torch's threads."""
        return self._example.segments.run_digest

    def save(self, path: str | Path) -> NoReturn:
        """ProgramError: loading executes nothing from a file, so a file cannot hold code for torch."""
        calls = dict.fromkeys(c for part in self._example.segments.parts if part.module is not None for c in part.calls)
        raise ProgramError(
            f"{path}: torch runs {', '.join(calls)}, and a program file holds no code for torch, because loading "
            "executes nothing from it. Save the model by torch.export.save(torch.export.export(model, inputs), path), "
            "and compile what torch.export.load returns with the same Config"
        )

    def tune(self, *args: Any, rounds: int = 9, folder: str | Path | None = None, **kwargs: Any) -> NoReturn:
        """ConfigError: only a `Program`, all of which the engine runs, can be tuned."""
        del args, rounds, folder, kwargs
        raise ConfigError(
            f"tune: torch runs a part of {self._interface.name}, and only programs without a fallback can be tuned. "
            "Programs with a fallback use the choices that were measured for the same sizes in other programs"
        )

    # --- reading it ----------------------------------------------------------------------------------------------

    def report(self, **sizes: int) -> Report:
        """As `CompiledModel.report`; `Report.segments` tells what the engine runs and what torch runs."""
        self._warn_of_changed_weights()
        chosen, listed = self._for_report(sizes)
        guards = tuple(map(str, (*self._interface.scope.guards, *self._interface.scope.conditions)))
        return chosen.segments.report(listed, guards, self._export_seconds)

    def profile(self, *args: Any, runs: int = 30, roofs: bool = True, **kwargs: Any) -> Profile:
        """As `CompiledModel.profile`; a segment that torch runs is one line, timed from its start to its end. It names
        the calls, their modules and their source lines, and counts as as many launches.
        """
        self._warn_of_changed_weights()
        check_profile(runs, roofs)
        chosen = self._for(args, kwargs)
        tensors = [as_tensor(value) for value in chosen.boundary.flatten_arguments(args, kwargs)]
        calls, device = [], targets.get(self.config.target).device
        for _ in range(runs):
            start = time.perf_counter()
            self(*args, **kwargs)
            device.wait()
            calls.append(time.perf_counter() - start)
        return chosen.segments.profile(tensors, runs, statistics.median(calls), roofs=roofs)

    def trace(self, *args: Any, keep: Iterable[int | str] | None = None, **kwargs: Any) -> Trace:
        """As `CompiledModel.trace`; each call that torch runs is a node, named by the call."""
        self._warn_of_changed_weights()
        chosen = self._for(args, kwargs)
        tensors = [as_tensor(value) for value in chosen.boundary.flatten_arguments(args, kwargs)]
        return chosen.segments.trace(tensors, Keep.read(keep))


def _describe(model: TorchExport) -> tuple[Graph, Symbols]:
    """Inputs and results as a graph without nodes; the symbols."""
    program = model.program
    specs = program.graph_signature.output_specs
    if written := [spec for spec in specs if spec.kind is not OutputKind.USER_OUTPUT]:
        has_input = any(spec.kind is OutputKind.USER_INPUT_MUTATION for spec in written)
        lines = [f"{spec.target}: the model writes to it" for spec in written if spec.target]
        effects = (node.args[1] for node in program.graph.nodes if str(node.target) == "with_effects")
        lines += dict.fromkeys(f"{call}: a call for its side effect" for call in effects)
        lines = [f"{line}, which is not offered with fallback" for line in lines]
        raise UnsupportedOp(lines, exporter.CLONE if has_input else "")
    walk = exporter.begin_walk(model)
    walk.add_placeholders(list_user_inputs(program), {})
    if walk.offenders:
        raise UnsupportedOp(walk.offenders)
    walk.graph.signature = exporter.sign(program, range(len(specs)))
    return walk.graph, walk.symbols


def _copy_shared(results: list[Any], others: list[torch.Tensor]) -> list[Any]:
    """Replaces the results that share memory with other tensors or with one another by copies; returns `results`."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in others}
    for position, result in enumerate(results):
        if isinstance(result, torch.Tensor):
            address = result.untyped_storage().data_ptr()
            results[position] = result.clone() if address in taken else result
            taken.add(address)
    return results
