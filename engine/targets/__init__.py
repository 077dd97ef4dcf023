"""What runs a program. A target is one folder or module here and one entry of the table, or an entry point of the group
``enginebench.targets`` in an installed package; the rest of the engine, the suites and the tools reach it by `get`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.config import Config
from engine.errors import ConfigError
from engine.graph import Graph
from engine.installed import load_installed
from engine.suggest import unknown
from engine.switches import Switch, names, register_source
from engine.switches import register as register_switch
from engine.targets.base import Target
from engine.targets.cpu import CPU
from engine.targets.interpreter import INTERPRETER
from engine.targets.interpreter import run as _interpret
from engine.targets.triton import TRITON

GROUP = "enginebench.targets"
TARGETS: dict[str, Target] = {}


def register(target: Target) -> None:
    """Let `Config(target=...)` name `target`; ConfigError where another one has its name."""
    if target.name in TARGETS:
        raise ConfigError(f"target {target.name!r}: there is one of this name already")
    TARGETS[target.name] = target
    register_switch(Switch("target", target.name, "on" if target is CPU else "off", target.summary))


def get(name: str) -> Target:
    """The target of that name; ConfigError for an unknown one."""
    if name not in TARGETS and name not in names("target"):  # which registers those of installed packages
        raise ConfigError(unknown("target", name, TARGETS))
    return TARGETS[name]


def choose(tensors: Iterable[Any]) -> str:
    """The name of the target for a model with these weights and inputs; some of them may be no tensors."""
    return (TRITON if any(getattr(one, "is_cuda", False) for one in tensors) else CPU).name


def require(name: str) -> Target:
    """The target of that name; ConfigError for an unknown one, and if this machine cannot run its programs."""
    target = get(name)
    if (reason := target.unavailable()) is not None:
        raise ConfigError(f"target {name}: {reason}")
    return target


def run_definitions(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the NumPy definitions of the ops make of `inputs`, which have the exact types of the graph."""
    return _interpret(graph, inputs)


def resolve(config: Config) -> Config:
    """The Config with what its target chooses where the user does not."""
    if config.activations is not None:
        return config
    return replace(config, activations=get(config.target).activations)


def _register_installed() -> None:
    for one in load_installed(GROUP):
        if not isinstance(one.loaded, Target):
            raise ConfigError(f"{one.what}: expected a Target, got {type(one.loaded).__name__}")
        register(one.loaded)


for _target in (CPU, INTERPRETER, TRITON):
    register(_target)
register_source("target", _register_installed)
