"""What ``diff`` compares: a program of the engine, an engine of another version, or another runtime, by its label."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import engine
from suites import backends as registry
from suites.backends import versions
from suites.backends.base import Backend
from suites.backends.engine import Engine
from suites.harness.declare.case import BackendRef
from suites.harness.declare.precision import PRECISIONS, convert_inputs, convert_model
from suites.harness.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn
    from torch.export import ExportedProgram

PLAIN = ("eager64", "eager", "interpreter")
"""References that need no backend."""


class Case(NamedTuple):
    """A model with its inputs: the module, torch's exported program of it, the first set of inputs, and threads."""

    module: nn.Module
    program: ExportedProgram
    inputs: tuple[Tensor, ...]
    threads: int


def read(label: str, option: str, case: Case) -> Any:
    """What `engine.diff` takes for the label of `option`. UsageError if there is nothing that can be compared."""
    if label in PLAIN:
        return label
    ref = BackendRef.parse(versions.resolve(label, Path.cwd()))
    options, precision = split_precision(ref, option)
    if versions.is_version(ref.name):
        return _OtherEngine(ref.name, {**ref.options}, case)
    if ref.name not in registry.BACKENDS:
        raise UsageError(f"{option}: unknown {label!r}; expected {', '.join(PLAIN)}, engine[...] or a runtime")
    kind = registry.load(ref)
    registry.check(BackendRef(ref.name, options))
    if kind is Engine:
        return _compile(Engine(case.threads, options), precision, case)
    if kind.show is Backend.show:
        able = [name for name in registry.BACKENDS if registry.load(BackendRef(name)).show is not Backend.show]
        raise UsageError(f"{option} {label}: it shows no values inside of its graph; those that do: {', '.join(able)}")
    backend = kind(case.threads, options)
    backend.precision = precision
    return _Runtime(ref.label, backend, case.program)


def split_precision(ref: BackendRef, option: str) -> tuple[dict[str, str], str]:
    """The options of the label that `option` gives, and the precision among them. UsageError for an unknown one."""
    options = dict(ref.options)
    precision = options.pop("precision", "fp32")
    if precision not in PRECISIONS:
        raise UsageError(f"{option} {ref.label}: unknown precision {precision!r}; expected {', '.join(PRECISIONS)}")
    return options, precision


def convert(module: nn.Module, inputs: tuple[Tensor, ...], precision: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model and its inputs in a precision that the harness rounds models to; as they are in another one."""
    if PRECISIONS[precision].dtype is None:
        return module, inputs
    return convert_model(copy.deepcopy(module), precision), tuple(convert_inputs(inputs, precision))


def _compile(backend: Engine, precision: str, case: Case) -> Any:
    """A Config; a Program where the harness converts the model first, which the exported one is not."""
    backend.precision = precision
    if PRECISIONS[precision].dtype is None:
        return engine.Config(**backend.config())
    return backend.compiled(*convert(case.module, case.inputs, precision))


class _Runtime:
    """Another runtime, which shows the values that its graph names."""

    notes: tuple[str, ...] = ()

    def __init__(self, label: str, backend: Backend, program: ExportedProgram) -> None:
        self.label, self._backend, self._program = label, backend, program

    def values(self, names: Collection[str], inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        found, note = self._backend.show(self._program, names, list(inputs.values()))
        self.notes = (note,) if note else ()
        return found


class _OtherEngine:
    """An engine of another checkout or commit, in a process of its own."""

    notes: tuple[str, ...] = ()

    def __init__(self, name: str, options: Mapping[str, str], case: Case) -> None:
        self.label, self._version, self._options, self._case = name, versions.get(name), options, case

    def values(self, names: Collection[str], inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        import torch

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            torch.export.save(self._case.program, folder / "program.pt2")
            torch.save(tuple(map(torch.from_numpy, inputs.values())), folder / "inputs.pt")
            question = {"roots": self._version.roots, "threads": self._case.threads, "options": self._options}
            asked = json.dumps({**question, "folder": name})
            line = versions.command(self._version.interpreter, "suites.other_engine.values", asked)
            ended = subprocess.run(line, capture_output=True, text=True, check=False, env=versions.environment())
            if ended.returncode:
                *_, last = ["no reason given", *ended.stderr.strip().splitlines()]
                raise UsageError(f"{self.label} shows no values: {last}")
            sys.stderr.write(ended.stderr)
            with np.load(folder / "values.npz") as found:
                return {key: found[key] for key in found.files if key in names}
